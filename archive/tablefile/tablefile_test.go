package tablefile

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"sara/translate"
)

// record is a row of the files. Its members are null in none or all of them.
type record struct {
	Name     *string  `parquet:"name,optional" json:"name,omitempty"`
	Count    int64    `parquet:"count" json:"count"`
	Position float64  `parquet:"position" json:"position"`
	Flag     *bool    `parquet:"flag,optional" json:"flag,omitempty"`
	Day      int32    `parquet:"day,date" json:"-"`
	Text     string   `parquet:"-" json:"day"` // the day
	Unread   []string `parquet:"unread,list" json:"unread"`
}

func anyRecords(n int) []record {
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"shoes", `a "quoted", name`, "line\nend", "carriage\r\nreturn", "ключ", "{}", "12", "null", " space "}
	all := make([]record, n)
	for i := range all {
		day := translate.NewDate(2025, 1, 1) + translate.Date(random.IntN(500))
		r := record{Count: random.Int64N(1 << 53), Position: random.Float64() * 100, Day: int32(day), Text: day.String(), Unread: []string{"x"}}
		if random.IntN(5) > 0 {
			r.Name = &names[random.IntN(len(names))]
		}
		if flag := random.IntN(3); flag < 2 {
			yes := flag == 1
			r.Flag = &yes
		}
		all[i] = r
	}
	return all
}

func writeCSV(w io.Writer, all []record) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"flag", "name", "position", "unread", "count", "day"}}
	for _, r := range all {
		name, flag := "", ""
		if r.Name != nil {
			name = *r.Name
		}
		if r.Flag != nil {
			flag = strconv.FormatBool(*r.Flag)
		}
		lines = append(lines, []string{flag, name, strconv.FormatFloat(r.Position, 'g', -1, 64), "x", strconv.FormatInt(r.Count, 10), r.Text})
	}
	return out.WriteAll(lines)
}

func writeJSON(w io.Writer, all []record) error {
	out := json.NewEncoder(w)
	for _, r := range all {
		r.Unread = nil // an array is not read
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func writeParquet(w io.Writer, all []record) error {
	out := parquet.NewGenericWriter[record](w, parquet.MaxRowsPerRowGroup(300), parquet.PageBufferSize(1000))
	if _, err := out.Write(all); err != nil {
		return err
	}
	return out.Close()
}

func writeAvro(w io.Writer, all []record) error {
	schema, err := avro.Parse(`{"type": "record", "name": "Root", "fields": [{"name": "day", "type": {"type": "int", "logicalType": "date"}},
		{"name": "count", "type": "long"}, {"name": "flag", "type": ["null", "boolean"]}, {"name": "name", "type": ["null", "string"]},
		{"name": "position", "type": "double"}, {"name": "unread", "type": {"type": "array", "items": "string"}}]}`)
	if err != nil {
		return err
	}
	out, err := ocf.NewWriter(w, schema, ocf.WithCodec(ocf.DeflateCodec(6)), ocf.WithBlockCount(100))
	if err != nil {
		return err
	}
	for _, r := range all {
		row := map[string]any{"day": r.Day, "count": r.Count, "position": r.Position, "unread": r.Unread, "name": nil, "flag": nil}
		if r.Name != nil {
			row["name"] = *r.Name
		}
		if r.Flag != nil {
			row["flag"] = *r.Flag
		}
		if err := out.Encode(row); err != nil {
			return err
		}
	}
	return out.Close()
}

func openBytes(t *testing.T, data []byte) (*File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err == nil {
		t.Cleanup(func() {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return f, err
}

func packed(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Every format returns the same rows, with the chosen columns in their order.
func TestFormatsReturnTheSameRows(t *testing.T) {
	all := anyRecords(1000)
	for format, write := range map[Format]func(io.Writer, []record) error{CSV: writeCSV, JSON: writeJSON, Parquet: writeParquet, Avro: writeAvro} {
		for _, zip := range []bool{false, true} {
			var file bytes.Buffer
			if err := write(&file, all); err != nil {
				t.Fatal(err)
			}
			data := file.Bytes()
			if zip {
				data = packed(t, data)
			}
			f, err := openBytes(t, data)
			if format == Parquet && zip {
				if err == nil || !strings.Contains(err.Error(), "cannot be read within gzip") {
					t.Errorf("Parquet within gzip: %v", err)
				}
				continue
			}
			if err != nil || f.Format() != format {
				t.Fatalf("%s: %v", format, err)
			}
			columns := slices.Sorted(slices.Values(f.Columns()))
			if want := []string{"count", "day", "flag", "name", "position", "unread"}; !slices.Equal(columns, want) {
				t.Errorf("%s: columns %v", format, columns)
			}
			readAll(t, fmt.Sprintf("%s, gzip %v", format, zip), f, all)
			if at := f.Position(); at != int64(len(data)) {
				t.Errorf("%s: at %d of %d bytes", format, at, len(data))
			}
		}
	}
}

func readAll(t *testing.T, what string, f *File, all []record) {
	t.Helper()
	if err := f.Choose("day", "absent", "flag", "name", "count", "position"); err != nil {
		t.Fatal(err)
	}
	var cells [6]Cell
	for i, want := range all {
		if err := f.Read(cells[:]); err != nil {
			t.Fatalf("%s, row %d: %v", what, i+1, err)
		}
		day, okDay := cells[0].Date()
		flag, okFlag := cells[2].Bool()
		count, okCount := cells[4].Int()
		position, okPosition := cells[5].Float()
		got := record{Count: count, Position: position, Day: int32(day)}
		name, wantName := string(cells[3].Text()), ""
		if want.Name != nil {
			wantName = *want.Name
		}
		if !okDay || !okFlag || !okCount || !okPosition || got.Count != want.Count || got.Position != want.Position || got.Day != want.Day ||
			name != wantName || cells[3].IsEmpty() != (wantName == "") || flag != (want.Flag != nil && *want.Flag) || !cells[1].IsEmpty() {
			t.Fatalf("%s, %s: %v, want %+v", what, f.Place(), cells, want)
		}
		if place := fmt.Sprint("row ", i+1); f.Place() != place {
			t.Fatalf("%s: %s is %s", what, place, f.Place())
		}
	}
	if err := f.Read(cells[:]); !errors.Is(err, io.EOF) {
		t.Errorf("%s: after the last row: %v", what, err)
	}
}

// A cell is read as its own type, and text as what it says; nothing is rounded or guessed.
func TestCells(t *testing.T) {
	of := func(set func(*Cell)) (c Cell) { set(&c); return c }
	text := func(s string) Cell { return of(func(c *Cell) { c.setText([]byte(s)) }) }
	whole := func(n int64) Cell { return of(func(c *Cell) { c.setInt(n) }) }
	fraction := func(f float64) Cell { return of(func(c *Cell) { c.setFloat(f) }) }
	yes, no := of(func(c *Cell) { c.setBool(true) }), of(func(c *Cell) { c.setBool(false) })
	const none = "-"
	for _, test := range []struct {
		cell                  Cell
		whole, fraction, bool string
		date                  string
		shown                 string
	}{
		{Cell{}, none, none, "false", none, "null"},
		{text(""), none, none, "false", none, `""`},
		{text("12"), "12", "12", none, none, `"12"`},
		{text("12.0"), "12", "12", none, none, `"12.0"`},
		{text("1.5"), none, "1.5", none, none, `"1.5"`},
		{text("9007199254740993"), "9007199254740993", "9.007199254740992e+15", none, none, `"9007199254740993"`},
		{text("1e17"), none, "1e+17", none, none, `"1e17"`},
		{text("-1e17"), none, "-1e+17", none, none, `"-1e17"`},
		{text("NaN"), none, none, none, none, `"NaN"`},
		{text("Inf"), none, none, none, none, `"Inf"`},
		{text("true"), none, none, "true", none, `"true"`},
		{text("0"), "0", "0", "false", none, `"0"`},
		{text("2025-02-28"), none, none, none, "2025-02-28", `"2025-02-28"`},
		{text("2025-02-30"), none, none, none, none, `"2025-02-30"`},
		{whole(20_000), "20000", "20000", none, "2024-10-04", "20000"},
		{whole(-1), "-1", "-1", none, none, "-1"},
		{whole(1 << 40), "1099511627776", "1.099511627776e+12", none, none, "1099511627776"},
		{fraction(12), "12", "12", none, none, "12"},
		{fraction(12.5), none, "12.5", none, none, "12.5"},
		{fraction(1 << 53), "9007199254740992", "9.007199254740992e+15", none, none, "9.007199254740992e+15"},
		{yes, none, none, "true", none, "true"},
		{no, none, none, "false", none, "false"},
	} {
		shown := func(v any, ok bool) string {
			if !ok {
				return none
			}
			return fmt.Sprint(v)
		}
		c := test.cell
		n, okN := c.Int()
		f, okF := c.Float()
		b, okB := c.Bool()
		d, okD := c.Date()
		got := []string{shown(n, okN), shown(f, okF), shown(b, okB), shown(d, okD), c.String()}
		if want := []string{test.whole, test.fraction, test.bool, test.date, test.shown}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", c.String(), got, want)
		}
	}
}

// A damaged or malformed file is an error that says where.
func TestDamagedFilesAreErrors(t *testing.T) {
	read := func(data []byte) error {
		f, err := openBytes(t, data)
		if err != nil {
			return err
		}
		if err := f.Choose("name", "count"); err != nil {
			return err
		}
		cells := make([]Cell, 2)
		for err == nil {
			err = f.Read(cells)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	longLine := strings.Repeat("x", longestRecord+1)
	for _, test := range []struct{ name, data, want string }{
		{"a line with too few fields", "name,count\na,1\nb\n", "line 3: it has 1 field, but the header has 2"},
		{"a quote that is not closed", "name,count\na,1\n\"b,1\n", "line 3: a quote is not closed"},
		{"a header with a quote inside", "na\"me,count\n", "line 1: a quote is inside a field"},
		{"a line that is not JSON", "{\"name\":\"a\"}\n\n{\"name\":\n", "line 3: it is not a JSON object"},
		{"a line that is a list", "{\"name\":\"a\"}\n[1]\n", "line 2: it is not a JSON object"},
		{"a member that is a list", "{\"name\":[1]}\n", "line 1: name is neither text nor a number"},
		{"a long line of JSON", "{\"name\":\"a\"}\n{\"name\":\"" + longLine + "\"}\n", "line 2: it is longer than"},
		{"a line that nests deeply", `{"other":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}\n", "line 1: it is not a JSON object"},
		{"a long field", "name,count\n\"" + longLine + "\",1\n", "line 2: it is longer than"},
		{"Avro of another type", "Obj\x01\x02\x16avro.schema\x0c\"long\"\x00" + strings.Repeat("s", 16), "its rows are of type long, not record"},
		{"Avro that is cut off", "Obj\x01\x02\x16avro.schema", "not an Avro file"},
		{"gzip that is cut off", "\x1f\x8b\x08\x00", "gzip"},
	} {
		if err := read([]byte(test.data)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	for _, write := range []func(io.Writer, []record) error{writeCSV, writeJSON, writeAvro} {
		var file bytes.Buffer
		if err := write(&file, anyRecords(3000)); err != nil {
			t.Fatal(err)
		}
		zip := packed(t, file.Bytes())
		for _, left := range []int{len(zip) / 2, len(zip) - 8, len(zip) - 1} { // the last two lack only the checksum, or a byte of it
			if err := read(zip[:left]); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d of %d bytes of a file within gzip: %v", left, len(zip), err)
			}
		}
	}
	var header, file bytes.Buffer
	if err := errors.Join(writeAvro(&header, nil), writeAvro(&file, anyRecords(100))); err != nil {
		t.Fatal(err)
	}
	for left := header.Len() + 1; left < file.Len(); left += 1 + left%19 { // one block: a file that ends between blocks is whole
		if err := read(file.Bytes()[:left]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d bytes of Avro: %v", left, file.Len(), err)
		}
	}
	if f, err := openBytes(t, nil); err != nil || f.Format() != Empty || len(f.Columns()) > 0 || f.Read(nil) != io.EOF {
		t.Errorf("an empty file: %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("a folder is opened")
	}
}

// A record of empty fields has no text, but still takes memory.
func TestACSVRecordHasBoundedFields(t *testing.T) {
	for fields, want := range map[int]bool{mostFields: true, mostFields + 1: false} {
		c := NewCSVReader(strings.NewReader(strings.Repeat(",", fields-1)))
		if err := c.Read(); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "more than 10000 fields") {
			t.Errorf("%d fields: %v", fields, err)
		}
	}
}
