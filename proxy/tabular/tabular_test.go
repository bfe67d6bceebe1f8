package tabular

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// guard is a guard against formulas that is easily seen.
func guard(text string) string {
	if strings.HasPrefix(text, "=") {
		return "'" + text
	}
	return text
}

// nested has every form of column.
func nested() []string {
	return []string{"name", "totals.clicks", "totals.ctr", "notes", "rules.type", "rules.value", "error.code"}
}

func TestAppendCSV(t *testing.T) {
	f := func(rows string, want ...string) {
		t.Helper()
		got, err := New(nested(), guard).AppendCSV(nil, []byte(rows))
		if err != nil {
			t.Fatalf("%s: %v", rows, err)
		}
		lines := append([]string{"name,totals.clicks,totals.ctr,notes,rules.type,rules.value,error.code"}, want...)
		if string(got) != strings.Join(lines, "\r\n")+"\r\n" {
			t.Errorf("%s is %q, want %q", rows, got, lines)
		}
	}
	f(`[]`)
	f(`[{}]`, ",,,,,,")
	f(`[{},{}]`, ",,,,,,", ",,,,,,")
	f(`[{"name":"a","totals":{"clicks":1,"ctr":0.5},"notes":["x","y"],`+
		`"rules":[{"type":"prefix","value":"/"},{"type":"regex","value":"a,b"}],"error":{"code":"C"}}]`,
		`a,1,0.5,x; y,prefix; regex,"/; a,b",C`)
	// In any order, with members that are not columns.
	f(`[{"error":{"more":{"deep":[1]},"code":"C"},"extra":{"totals":{"clicks":9}},"totals":{"ctr":0,"clicks":-3},"name":"a"}]`, "a,-3,0,,,,C")
	// What is not there is empty.
	f(`[{"name":null,"totals":null,"notes":null,"rules":null,"error":null}]`, ",,,,,,")
	f(`[{"name":"","totals":{"clicks":null},"notes":[],"rules":[],"error":{}}]`, ",,,,,,")
	// A cell of the last row does not stay.
	f(`[{"name":"a","totals":{"clicks":1},"notes":["x"],"rules":[{"type":"t"}]},{"name":"b"}]`, "a,1,,x,t,,", "b,,,,,,")
	// The elements of neighbouring columns match.
	f(`[{"rules":[{"type":"a"},{"value":"b"},null,{"value":"c","type":"d"}],"notes":[null,"x",true,1.5]}]`, ",,,; x; true; 1.5,a; ; ; d,; b; ; c,")
	// Texts are guarded and quoted, numbers are not.
	f(`[{"name":"=1","totals":{"clicks":-1},"notes":["=1","b"],"rules":[{"type":"x","value":"=1"}],"error":{"code":"=\"a\""}}]`,
		`'=1,-1,,'=1; b,x,'=1,"'=""a"""`)
	f(`[{"name":"a\"b","notes":["c\nd"],"error":{"code":"\ud83e\ude91\u2028\\\/"}}]`, "\"a\"\"b\",,,\"c\nd\",,,🪑\u2028\\/")
	f(`[{"name":"[{\"a\\\\\":1},]"}]`, `"[{""a\\"":1},]",,,,,,`)
	f(`[{"name":true,"notes":"one"}]`, "true,,,one,,,")
}

func TestAppendNDJSON(t *testing.T) {
	for rows, want := range map[string]string{
		`[]`:                              "",
		`[{}]`:                            "{}\n",
		`[{"a":"},{"},{"b":[1,{"c":2}]}]`: "{\"a\":\"},{\"}\n{\"b\":[1,{\"c\":2}]}\n",
		`[1,null,"x"]`:                    "1\nnull\n\"x\"\n",
	} {
		if got, err := appendNDJSON(nil, []byte(rows)); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), want %q", rows, got, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	for answer, want := range map[string][2]string{
		`{"success":true,"data":{"rows":[]},"meta":{"a":1`:                                             {`[]`, `{"a":1`},
		`{"success":true,"data":{"dimension":"query","rows":[{"rows":1}],"totals":{"rows":2}},"meta":`: {`[{"rows":1}]`, ``},
		`{"meta2":{"rows":[2]},"data":{"rows":[1]},"meta":{}}`:                                         {`[1]`, `{}}`},
	} {
		rows, meta, err := find([]byte(answer))
		if err != nil || string(rows) != want[0] || string(meta) != want[1] {
			t.Errorf("%s has the rows %s and the meta %s (%v), want %s", answer, rows, meta, err, want)
		}
	}
	for _, answer := range []string{``, `{}`, `[]`, `{"data":{"rows":[]}}`, `{"data":{},"meta":{}}`, `{"data":[],"meta":{}}`,
		`{"data":{"rows":[}`, `{"data":{"rows":[1,`} {
		if rows, meta, err := find([]byte(answer)); err == nil {
			t.Errorf("%s has the rows %s and the meta %s", answer, rows, meta)
		}
	}
}

// What is not JSON of this form is an error, and not a wrong file.
func TestAppendRefusesOtherJSON(t *testing.T) {
	for _, rows := range []string{``, `{}`, `[`, `[{`, `[{"name"`, `[{"name":`, `[{"name":"`, `[{"name":"\"`, `[{"name":1`, `[{"name":1}`,
		`[{"name":1]`, `[1]`, `[{"name":1}]x`, `[{}{}]`, `[{"name":{"a":1}}]`, `[{"totals":1}]`, `[{"name":}]`, `[{"name":,}]`,
		`[{"notes":[1}]`} {
		if got, err := New(nested(), guard).AppendCSV(nil, []byte(rows)); err == nil {
			t.Errorf("%s is %q", rows, got)
		}
	}
	for _, rows := range []string{``, `{}`, `[`, `[1`, `[1,`, `["`, `[,]`, `[1]x`, `[{]`} {
		if got, err := appendNDJSON(nil, []byte(rows)); err == nil {
			t.Errorf("%s is %q", rows, got)
		}
	}
}

// slowCSV writes rows by the standard library, which reads into maps and writes records.
func slowCSV(columns []string, rows []map[string]any) string {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write(columns)
	for _, row := range rows {
		record := make([]string, len(columns))
		for i, column := range columns {
			if record[i] = slowCell(row, strings.Split(column, ".")); !isNumber(row, column) {
				record[i] = guard(record[i])
			}
		}
		_ = w.Write(record)
	}
	w.Flush()
	return out.String()
}

func isNumber(row map[string]any, column string) bool {
	_, ok := row[column].(json.Number)
	return ok
}

func slowCell(value any, path []string) string {
	switch value := value.(type) {
	case nil:
		return ""
	case []any:
		var cells []string
		for _, element := range value {
			cells = append(cells, slowCell(element, path))
		}
		return strings.Join(cells, "; ")
	case map[string]any:
		if len(path) == 0 {
			return ""
		}
		return slowCell(value[path[0]], path[1:])
	}
	return fmt.Sprint(value)
}

// Both writers agree with the standard library on any text and any shape of row.
func FuzzAppend(f *testing.F) {
	for _, seed := range []string{"plain", "=1+1", "a,b", "\"quoted\"", "line\nend\r\n", "\r", "\\", "ä日🪑", "\u2028<>&", "a\x00b", "; ", "}],{"} {
		f.Add(seed, seed, 3, 0.5)
	}
	f.Fuzz(func(t *testing.T, a, b string, n int, x float64) {
		type object = map[string]any
		rows := []object{
			{"name": a, "totals": object{"clicks": n, "ctr": nil}, "notes": []any{b, a, nil},
				"rules": []any{object{"type": b, "value": a}, object{"type": a, "value": n}}, b: a},
			{"name": nil, "notes": []any{}, "totals": nil, "error": object{"code": b, "more": []any{a}}},
		}
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(n%2 == 0)
		if err := encoder.Encode(rows); err != nil {
			t.Skip() // no JSON has this number
		}
		compact := bytes.TrimSuffix(text.Bytes(), []byte("\n"))
		decoder := json.NewDecoder(bytes.NewReader(compact))
		decoder.UseNumber()
		var decoded []map[string]any
		if err := decoder.Decode(&decoded); err != nil {
			t.Fatal(err)
		}
		if slices.Contains([]string{"name", "totals", "notes", "rules", "error"}, b) {
			t.Skip() // the member would be there twice
		}
		got, err := New(nested(), guard).AppendCSV(nil, compact)
		if err != nil {
			t.Fatalf("%s: %v", compact, err)
		}
		want, err := csv.NewReader(strings.NewReader(slowCSV(nested(), decoded))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if read, err := csv.NewReader(bytes.NewReader(got)).ReadAll(); err != nil || fmt.Sprint(read) != fmt.Sprint(want) {
			t.Errorf("%s is %q (%v), want %q", compact, read, err, want)
		}
		lines, err := appendNDJSON(nil, compact)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range bytes.Split(bytes.TrimSuffix(lines, []byte("\n")), []byte("\n")) {
			var row map[string]any
			decoder := json.NewDecoder(bytes.NewReader(line))
			decoder.UseNumber()
			if err := decoder.Decode(&row); err != nil || fmt.Sprint(row) != fmt.Sprint(decoded[i]) {
				t.Errorf("line %d is %s (%v), want %v", i, line, err, decoded[i])
			}
		}
	})
}

// Damaged JSON is an error or another file, but no panic.
func FuzzDamaged(f *testing.F) {
	f.Add([]byte(`{"success":true,"data":{"rows":[{"name":"a\"","notes":[1,[2]],"rules":[{"type":null}]}]},"meta":{"notes":[]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _, _ = find(text)
		_, _ = appendNDJSON(nil, text)
		_, _ = New(nested(), guard).AppendCSV(nil, text)
	})
}

// manyRows are rows as /queries has them.
func manyRows(n int) []byte {
	text := []byte{'['}
	for i := range n {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, `{"key":"garden chair %d with cushion","clicks":%d,"impressions":%d,"ctr":0.0%d,"position":%d.123456789012}`, i,
			n-i, 10*(n-i), 100+i, 1+i%90)
	}
	return append(text, ']')
}

// A conversion takes the memory of its output and of one row.
func TestAppendAllocatesLittle(t *testing.T) {
	table := New([]string{"key", "clicks", "impressions", "ctr", "position"}, guard)
	for _, n := range []int{1, 1000} {
		rows := manyRows(n)
		dst := make([]byte, 0, len(rows))
		for name, convert := range map[string]func([]byte, []byte) ([]byte, error){"CSV": table.AppendCSV, "NDJSON": appendNDJSON} {
			if allocations := testing.AllocsPerRun(10, func() {
				if _, err := convert(dst, rows); err != nil {
					t.Fatal(err)
				}
			}); allocations > 4 {
				t.Errorf("%s of %d rows: %v allocations", name, n, allocations)
			}
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	table := New([]string{"key", "clicks", "impressions", "ctr", "position"}, guard)
	for _, n := range []int{1_000, 25_000} {
		rows := manyRows(n)
		for _, f := range []struct {
			name    string
			convert func([]byte, []byte) ([]byte, error)
		}{{"csv", table.AppendCSV}, {"ndjson", appendNDJSON}} {
			b.Run(fmt.Sprintf("%s/%d", f.name, n), func(b *testing.B) {
				b.SetBytes(int64(len(rows)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := f.convert(make([]byte, 0, len(rows)), rows); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
