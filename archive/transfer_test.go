package archive

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sara/translate"
)

// recordsOf yields the given records.
func recordsOf(all []Record) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// readRecords yields the records of a file without their places, which exported records do not have.
func readRecords(file string, f Format) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for r, err := range ReadRecords(strings.NewReader(file), int64(len(file)), f) {
			if !yield(r.Record, err) {
				return
			}
		}
	}
}

// placed numbers records like the lines of a file.
func placed(all []Record) iter.Seq2[FileRecord, error] {
	return func(yield func(FileRecord, error) bool) {
		for i, r := range all {
			if !yield(FileRecord{r, Place{Number: i + 1}}, nil) {
				return
			}
		}
	}
}

func collect(tb testing.TB, records iter.Seq2[Record, error]) []Record {
	tb.Helper()
	var all []Record
	for r, err := range records {
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// anyRecords draws valid records of some days of several months, with awkward keys and many ties, in export order.
func anyRecords(random *rand.Rand, n int) []Record {
	awkward := []string{"a", "A", "ä", `"`, `""`, "a,b", "line\nend", "carriage\r\nreturn", "\r", " space ", `\.`, "{}", "ключ", "\U0001F337",
		"null", "\x01", "<&>", "https://example.com/%F0%9F%8C%B7?a=b,c",
		"=1+1", "+49 30", "-5", "@shop", "\t=1", "\n=1", "'=1", "''=1", "'", "''", "'quoted'", "o'clock"}
	type place struct {
		date translate.Date
		by   translate.Dimension
		key  string
	}
	seen := make(map[place]bool)
	var all []Record
	for range n {
		r := Record{
			Date:      translate.NewDate(2024, 1, 25) + translate.Date(random.IntN(45)),
			Dimension: Dimensions()[random.IntN(5)],
			Clicks:    random.Int64N(3),
			Position:  1 + 40*random.Float64(),
		}
		r.Impressions = r.Clicks + 1 + random.Int64N(1000)
		switch r.Dimension {
		case translate.ByQuery, translate.ByPage:
			r.Key = awkward[random.IntN(len(awkward))]
		case translate.ByCountry:
			r.Key = []string{"deu", "fra", "usa", "zzz"}[random.IntN(4)]
		case translate.ByDevice:
			r.Key = []string{"DESKTOP", "MOBILE", "TABLET"}[random.IntN(3)]
		}
		if at := (place{r.Date, r.Dimension, r.Key}); !seen[at] {
			seen[at] = true
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(DimensionName(a.Dimension), DimensionName(b.Dimension)),
			cmp.Compare(b.Clicks, a.Clicks), cmp.Compare(a.Key, b.Key))
	})
	return all
}

func TestRecordsRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, f := range []Format{CSV, JSONL, Parquet} {
		for _, n := range []int{0, 1, 2000} {
			want := anyRecords(random, n)
			var file bytes.Buffer
			if err := WriteRecords(&file, f, recordsOf(want)); err != nil {
				t.Fatal(err)
			}
			got := collect(t, readRecords(file.String(), f))
			if !slices.Equal(got, want) {
				t.Errorf("%s: %d records, want %d", f, len(got), len(want))
			}
			if n == 0 {
				continue // a shard without records need not have columns
			}
			path := filepath.Join(t.TempDir(), "shard")
			if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			got = got[:0]
			for r, err := range ReadShards([]string{path, path}) {
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, r.Record); r.Place != (Place{Number: (len(got)-1)%len(want) + 1, IsRow: true, File: path}) {
					t.Errorf("%s: a shard's record %d is at %v", f, len(got), r.Place)
				}
			}
			if !slices.Equal(got, slices.Concat(want, want)) {
				t.Errorf("two %s shards: %d records, want twice %d", f, len(got), len(want))
			}
		}
	}
}

func TestExportAndImportRoundTrip(t *testing.T) {
	all := translate.DateRange{Start: translate.NewDate(2024, 1, 1), End: translate.NewDate(2024, 12, 31)}
	want := anyRecords(rand.New(rand.NewPCG(3, 4)), 1500)
	for _, f := range []Format{CSV, JSONL, Parquet} {
		one, two := newTestHistory(t), newTestHistory(t)
		shuffled := slices.Clone(want)
		rand.New(rand.NewPCG(5, 6)).Shuffle(len(want), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		result, err := one.Import(t.Context(), testProperty, placed(shuffled), ImportOptions{Until: all.End})
		if err != nil || result.Rows != len(want) || result.DroppedRows != 0 || result.Kept != 0 {
			t.Fatalf("%+v, %v", result, err)
		}
		var file bytes.Buffer
		if err := WriteRecords(&file, f, one.Export(t.Context(), testProperty, all)); err != nil {
			t.Fatal(err)
		}
		records := ReadRecords(bytes.NewReader(file.Bytes()), int64(file.Len()), f)
		if _, err := two.Import(t.Context(), testProperty, records, ImportOptions{Until: all.End}); err != nil {
			t.Fatal(err)
		}
		if got := collect(t, two.Export(t.Context(), testProperty, all)); !slices.Equal(got, want) {
			t.Errorf("%s: %d records, want %d", f, len(got), len(want))
		}
		part := translate.DateRange{Start: translate.NewDate(2024, 1, 30), End: translate.NewDate(2024, 2, 2)}
		within := slices.DeleteFunc(slices.Clone(want), func(r Record) bool { return r.Date < part.Start || r.Date > part.End })
		if got := collect(t, two.Export(t.Context(), testProperty, part)); !slices.Equal(got, within) {
			t.Errorf("%s of a part: %d records, want %d", f, len(got), len(within))
		}
	}
}

// A day without traffic is still archived after an export and an import, and so are the queries of a day of which Search Console withheld all:
// otherwise a site with little traffic would lack most of its days.
func TestExportAndImportKeepDaysWithoutRows(t *testing.T) {
	first := translate.NewDate(2024, 1, 30)
	var total translate.RowsBuilder
	total.Add(nil, translate.Metrics{Clicks: 1, Impressions: 4, Position: 2})
	days := []Day{
		{Date: first, Dimension: translate.ByQuery, Rows: queries(2, 5), Final: true},
		{Date: first + 1, Dimension: translate.ByQuery, Final: true},
		{Date: first + 1, Dimension: translate.ByDate, Rows: total.Rows(), Final: true},
	}
	for _, by := range Dimensions() {
		days = append(days, Day{Date: first + 3, Dimension: by, Final: true})
	}
	all := translate.DateRange{Start: first, End: first + 9}
	for _, f := range []Format{CSV, JSONL, Parquet} {
		one, two := newTestHistory(t), newTestHistory(t)
		if err := one.Merge(t.Context(), testProperty, days); err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if err := WriteRecords(&file, f, one.Export(t.Context(), testProperty, all)); err != nil {
			t.Fatal(err)
		}
		records := ReadRecords(bytes.NewReader(file.Bytes()), int64(file.Len()), f)
		result, err := two.Import(t.Context(), testProperty, records, ImportOptions{Until: all.End})
		if err != nil || result.Days != len(days) || result.Rows != 2+2+1 {
			t.Errorf("%s: %+v, %v", f, result, err)
		}
		want, err := one.Days(t.Context(), testProperty)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := two.Days(t.Context(), testProperty); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v are archived, %v, want %+v", f, got, err, want)
		}
	}
}

// An imported total of zeros says that the day has no queries, but archived queries are not deleted for it.
func TestImportedTotalOfZerosReplacesNoOtherRows(t *testing.T) {
	h, date := newTestHistory(t), translate.NewDate(2024, 1, 30)
	if err := h.Merge(t.Context(), testProperty, []Day{{Date: date, Dimension: translate.ByQuery, Rows: queries(2, 5)}}); err != nil {
		t.Fatal(err)
	}
	zeros := []Record{{Date: date, Dimension: translate.ByDate}}
	result, err := h.Import(t.Context(), testProperty, placed(zeros), ImportOptions{Until: date, Replace: true})
	if err != nil || result.Days != 4 || result.Kept != 1 || len(result.Differing) != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	got, err := h.Read(t.Context(), testProperty, translate.ByQuery, translate.DateRange{Start: date, End: date}, 0)
	if err != nil || got.Rows.Len() != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A day whose archived total is kept had traffic, so an imported total of zeros does not say that it has no queries: that stays unknown.
func TestImportedTotalOfZerosThatIsNotArchivedSaysNothingOfOtherRows(t *testing.T) {
	h, date := newTestHistory(t), translate.NewDate(2024, 1, 30)
	var total translate.RowsBuilder
	total.Add([]byte(date.String()), translate.Metrics{Clicks: 5, Impressions: 9, Position: 2})
	if err := h.Merge(t.Context(), testProperty, []Day{{Date: date, Dimension: translate.ByDate, Rows: total.Rows(), Final: true}}); err != nil {
		t.Fatal(err)
	}
	before := objects(t, h.bucket)
	zeros := []Record{{Date: date, Dimension: translate.ByDate}}
	result, err := h.Import(t.Context(), testProperty, placed(zeros), ImportOptions{Until: date})
	if err != nil || result.Days != 0 || result.Kept != 1 || len(result.Differing) != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if !same(objects(t, h.bucket), before) {
		t.Error("the import has changed the archive")
	}
	missing, _, err := h.Missing(t.Context(), testProperty, translate.ByQuery, translate.DateRange{Start: date, End: date})
	if err != nil || len(missing) != 1 {
		t.Errorf("%v, %v", missing, err)
	}
}

func TestImportNamesInvalidLines(t *testing.T) {
	h := newTestHistory(t)
	until := day(t, "2026-05-31")
	refuse := func(want, row string) {
		t.Helper()
		file := "date,dimension,key,clicks,impressions,position\n2026-05-01,query,good,1,2,3.5\n" + row
		_, err := h.Import(t.Context(), testProperty, ReadRecords(strings.NewReader(file), int64(len(file)), CSV), ImportOptions{Until: until})
		var fault *RecordError
		if !errors.As(err, &fault) || fault.Place.Number != 3 || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", row, err, want)
		}
	}
	refuse(`line 3, column date: "2026-02-30" is not a date`, "2026-02-30,query,a,1,2,3")
	refuse(`line 3, column date: "1969-12-31"`, "1969-12-31,query,a,1,2,3")
	refuse("line 3, column date: 2026-06-01 is after 2026-05-31", "2026-06-01,query,a,1,2,3")
	refuse(`line 3, column dimension: "Query" is not query, page`, "2026-05-01,Query,a,1,2,3")
	refuse(`line 3, column dimension: "date" is not query`, "2026-05-01,date,a,1,2,3")
	refuse(`line 3, column clicks: "-1" is not a whole number`, "2026-05-01,query,a,-1,2,3")
	refuse(`line 3, column clicks: "1.5" is not a whole number`, "2026-05-01,query,a,1.5,2,3")
	refuse(`line 3, column clicks: "" is not a whole number`, "2026-05-01,query,a,,2,3")
	refuse(`line 3, column impressions: "9007199254740993" is not a whole number`, "2026-05-01,query,a,1,9007199254740993,3")
	refuse(`line 3, column impressions: "NaN" is not a whole number`, "2026-05-01,query,a,1,NaN,3")
	refuse(`line 3, column key: "USA" is not a country of three lower-case letters`, "2026-05-01,country,USA,1,2,3")
	refuse(`line 3, column key: "us" is not a country of three lower-case letters`, "2026-05-01,country,us,1,2,3")
	refuse(`line 3, column key: "mobile" is not DESKTOP`, "2026-05-01,device,mobile,1,2,3")
	refuse("line 3, column impressions: 1 is less than the clicks, 2", "2026-05-01,query,a,2,1,3")
	refuse(`line 3, column position: "Inf" is not a number`, "2026-05-01,query,a,1,2,Inf")
	refuse(`line 3, column position: "0x1p4" is not a number`, "2026-05-01,query,a,1,2,0x1p4")
	refuse("line 3, column position: 0.5: positions count from 1", "2026-05-01,query,a,1,2,0.5")
	refuse("line 3, column position: 7: without impressions", "2026-05-01,query,a,0,0,7")
	refuse("line 3, column key: it is empty", "2026-05-01,page,,1,2,3")
	refuse("line 3, column key: it is empty", "2026-05-01,page,,0,1,1")
	refuse(`line 3, column key: "x": a total must not have a key`, "2026-05-01,total,x,1,2,3")
	refuse("line 3, column key: it must be UTF-8", "2026-05-01,query,\xff,1,2,3")
	refuse("line 3, column key: it must be UTF-8 text of at most 16384 bytes", "2026-05-01,query,"+strings.Repeat("x", 16385)+",1,2,3")
	refuse(`line 3, column key: 2026-05-01 query "good" is already in line 2`, "2026-05-01,query,good,1,2,3\n2026-05-01,query,good,1,2,3")
	refuse("line 3: it has 5 columns, not 6", "2026-05-01,query,a,1,2")
	refuse("line 3: a quote is inside a field", `2026-05-01,query,a"b,1,2,3`)
	refuse("line 3: a closing quote is followed by text", `2026-05-01,query,"a"b,1,2,3`)
	refuse("line 3: a quote is not closed", `2026-05-01,query,"a,1,2,3`)
	refuse("line 3: it is longer than 1048576 bytes", `2026-05-01,query,"`+strings.Repeat("x", 2<<20))

	if days, err := h.Days(t.Context(), testProperty); len(days) != 0 || err != nil {
		t.Errorf("a refused import has archived %v, %v", days, err)
	}
}

// A record's place is where it starts: the header, empty lines and line ends within quotes count as lines.
func TestImportErrorsNameTheLineOfTheFile(t *testing.T) {
	h := newTestHistory(t)
	until := day(t, "2026-05-31")
	refuse := func(f Format, want, file string) {
		t.Helper()
		_, err := h.Import(t.Context(), testProperty, ReadRecords(strings.NewReader(file), int64(len(file)), f), ImportOptions{Until: until})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s %q: %v, want %q", f, file, err, want)
		}
	}
	const header, good = "date,dimension,key,clicks,impressions,position\n", "2026-05-01,query,good,1,2,3.5\n"
	refuse(CSV, "line 2, column clicks", header+"2026-05-01,query,a,x,2,3")
	refuse(CSV, "line 5, column clicks", header+"\n"+good+"\r\n2026-05-01,query,a,x,2,3")
	refuse(CSV, "line 4, column clicks", "\ufeff"+strings.ReplaceAll(header+good, "\n", "\r\n")+"\r\n2026-05-01,query,a,x,2,3\r\n")
	refuse(CSV, "line 5, column clicks", header+"2026-05-01,query,\"a\nb\r\nc\",1,2,3\n2026-05-01,query,a,x,2,3\n")
	refuse(CSV, "line 3, column clicks", header+good+"2026-05-01,query,\"a\nb\",x,2,3\n")
	refuse(CSV, "line 3: a quote is not closed", header+good+"2026-05-01,query,\"a\nb,1,2,3\n")
	refuse(CSV, "line 4: a closing quote is followed by text", "\n"+header+good+"2026-05-01,query,\"a\nb\"c,1,2,3\n")
	refuse(CSV, `line 5, column key: 2026-05-01 query "good" is already in line 3`, header+"\n"+good+"\n"+good)
	// Of several duplicates, the first of the file.
	const other = "2026-05-01,query,a,1,2,3.5\n"
	refuse(CSV, `line 4, column key: 2026-05-01 query "good" is already in line 2`, header+good+other+good+other)
	refuse(CSV, `line 4, column key: 2026-05-01 query "a" is already in line 3`, header+good+other+other+good)
	object := func(clicks string) string {
		return `{"date":"2026-05-01","dimension":"query","key":"a","clicks":` + clicks + `,"impressions":2,"position":3}` + "\n"
	}
	refuse(JSONL, "line 4, column clicks", "\n"+object("1")+"\r\n"+object(`"x"`))
	refuse(JSONL, "line 3, column impressions", "\n"+object("1")+object("3"))
	refuse(JSONL, "line 3: it is longer", "\n"+object("1")+strings.Repeat("x", 2<<20))
}

func TestImportErrorsNameTheRowOfAParquetFile(t *testing.T) {
	h := newTestHistory(t)
	until := day(t, "2026-05-31")
	var file bytes.Buffer
	records := []Record{{Date: until, Dimension: translate.ByQuery, Key: "a"}, {Date: until, Dimension: translate.ByQuery, Key: "b"},
		{Date: until, Dimension: translate.ByQuery, Key: "a"}}
	if err := WriteRecords(&file, Parquet, recordsOf(records)); err != nil {
		t.Fatal(err)
	}
	for last, want := range map[translate.Date]string{
		until:     `row 3, column key: 2026-05-31 query "a" is already in row 1`,
		until - 1: "row 1, column date: 2026-05-31 is after 2026-05-30, the last day with figures",
	} {
		_, err := h.Import(t.Context(), testProperty, ReadRecords(bytes.NewReader(file.Bytes()), int64(file.Len()), Parquet), ImportOptions{Until: last})
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestImportKeepsArchivedDaysUnlessReplace(t *testing.T) {
	h := newTestHistory(t)
	first := day(t, "2026-05-01")
	of := func(date translate.Date, key string) Record {
		return Record{Date: date, Dimension: translate.ByQuery, Key: key, Clicks: 1, Impressions: 2, Position: 3}
	}
	bring := func(o ImportOptions, want string, records ...Record) {
		t.Helper()
		o.Until = first + 100
		result, err := h.Import(t.Context(), testProperty, placed(records), o)
		if got := fmt.Sprintf("%+v", result); err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	holds := func(want ...string) {
		t.Helper()
		var got []string
		for _, r := range collect(t, h.Export(t.Context(), testProperty, translate.DateRange{Start: first, End: first + 100})) {
			got = append(got, r.Date.String()[8:]+" "+r.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the archive holds %q, want %q", got, want)
		}
	}
	if err := h.Merge(t.Context(), testProperty, []Day{{Date: first, Dimension: translate.ByQuery, Rows: queries(1, 1)}}); err != nil {
		t.Fatal(err)
	}
	bring(ImportOptions{}, "{Rows:2 Days:1 Kept:1 DroppedRows:0 "+
		"Differing:[{Date:2026-05-01 Dimension:query Archived:{Clicks:1 Impressions:10} Imported:{Clicks:1 Impressions:2}}]}",
		of(first, "new"), of(first+1, "new"))
	holds("01 query 0", "02 new")
	bring(ImportOptions{}, "{Rows:1 Days:0 Kept:1 DroppedRows:0 "+
		"Differing:[{Date:2026-05-02 Dimension:query Archived:{Clicks:1 Impressions:2} Imported:{Clicks:1 Impressions:2}}]}", of(first+1, "newer"))
	holds("01 query 0", "02 new")
	// Kept days differ by a key, by clicks, or by impressions. Positions are rounded.
	other := of(first+1, "new")
	other.Position = 3.1
	bring(ImportOptions{}, "{Rows:1 Days:0 Kept:1 DroppedRows:0 Differing:[]}", other)
	other.Clicks = 2
	bring(ImportOptions{}, "{Rows:1 Days:0 Kept:1 DroppedRows:0 "+
		"Differing:[{Date:2026-05-02 Dimension:query Archived:{Clicks:1 Impressions:2} Imported:{Clicks:2 Impressions:2}}]}", other)
	other.Clicks, other.Impressions = 1, 3
	bring(ImportOptions{}, "{Rows:1 Days:0 Kept:1 DroppedRows:0 "+
		"Differing:[{Date:2026-05-02 Dimension:query Archived:{Clicks:1 Impressions:2} Imported:{Clicks:1 Impressions:3}}]}", other)
	holds("01 query 0", "02 new")
	bring(ImportOptions{Replace: true}, "{Rows:1 Days:1 Kept:0 DroppedRows:0 Differing:[]}", of(first, "newest"))
	holds("01 newest", "02 new")
	// An imported day is final; only a final collected day replaces it.
	if err := h.Merge(t.Context(), testProperty, []Day{{Date: first, Dimension: translate.ByQuery, Rows: queries(1, 1)}}); err != nil {
		t.Fatal(err)
	}
	holds("01 newest", "02 new")
	if err := h.Merge(t.Context(), testProperty, []Day{{Date: first, Dimension: translate.ByQuery, Rows: queries(1, 1), Final: true}}); err != nil {
		t.Fatal(err)
	}
	holds("01 query 0", "02 new")

	// Days from Provisional on are not final: collected days replace them.
	bring(ImportOptions{Provisional: first + 4}, "{Rows:2 Days:2 Kept:0 DroppedRows:0 Differing:[]}", of(first+3, "final"), of(first+4, "changing"))
	for n := range translate.Date(2) {
		if err := h.Merge(t.Context(), testProperty, []Day{{Date: first + 3 + n, Dimension: translate.ByQuery, Rows: queries(1, 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	holds("01 query 0", "02 new", "04 final", "05 query 0")

	many := []Record{{Date: first + 2, Dimension: translate.ByPage, Key: "zero"}}
	for i := range 150 {
		many = append(many, Record{Date: first + 2, Dimension: translate.ByPage, Key: fmt.Sprint(i), Clicks: int64(i), Impressions: 200, Position: 1})
	}
	bring(ImportOptions{}, "{Rows:151 Days:1 Kept:0 DroppedRows:51 Differing:[]}", many...)
}
