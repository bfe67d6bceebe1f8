package translate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// oneRow returns an upstream body with one row, whose members are inserted raw.
func oneRow(key, clicks, impressions, ctr, position string) string {
	return fmt.Sprintf(`{"rows":[{"keys":["%s"],"clicks":%s,"impressions":%s,"ctr":%s,"position":%s}]}`, key, clicks, impressions, ctr, position)
}

func wantRows(t *testing.T, body string, keys []string, metrics ...Metrics) {
	t.Helper()
	rows, err := readRows([]byte(body), ByQuery)
	if err != nil {
		t.Errorf("%.200s: %v", body, err)
		return
	}
	var got []string
	for i := range rows.Len() {
		got = append(got, string(rows.Key(i)))
	}
	if !slices.Equal(got, keys) || !slices.Equal(rows.metrics, metrics) {
		t.Errorf("%.200s:\n got %q %v\nwant %q %v", body, got, rows.metrics, keys, metrics)
	}
}

func wantNoRows(t *testing.T, body string) {
	t.Helper()
	if rows, err := readRows([]byte(body), ByQuery); err == nil || rows != nil {
		t.Errorf("%.200s: read %d rows and error %v, want an error alone", body, rows.Len(), err)
	}
}

func TestReadRows(t *testing.T) {
	two := []Metrics{{18548, 1652038, 0.011227344649457216, 9.81503633693656}, {0, 3, 0, 74}}
	compact := `{"rows":[{"keys":["a b"],"clicks":18548,"impressions":1652038,"ctr":0.011227344649457216,"position":9.81503633693656},` +
		`{"keys":[""],"clicks":0,"impressions":3,"ctr":0,"position":74}],"responseAggregationType":"byProperty"}`
	wantRows(t, compact, []string{"a b", ""}, two...)
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(compact), "", "  "); err != nil {
		t.Fatal(err)
	}
	wantRows(t, pretty.String(), []string{"a b", ""}, two...)
	wantRows(t, strings.ReplaceAll(pretty.String(), "\n", "\r\n\t"), []string{"a b", ""}, two...)

	// No rows: the member is absent or empty.
	wantRows(t, `{"responseAggregationType":"byProperty"}`, nil)
	wantRows(t, "{ \"responseAggregationType\":null } ", nil)
	wantRows(t, `{"rows":[]}`, nil)
	wantRows(t, `{"rows": [ ] , "responseAggregationType" : "auto"}`, nil)

	// Other members are skipped, wherever they are.
	row := `{"x":{"rows":[{"keys":1}]},"keys":["k"],"y":[1,[2,{"clicks":9}]],"clicks":1,"impressions":2,` +
		`"z":null,"":"","t":true,"f":false,"n":-1.5e-3,"s":"\"}]"}`
	wantRows(t, `{"metadata":{"firstIncompleteDate":"2026-08-15","rows":[]},"rows":[`+row+`],"more":[[],{}]}`, []string{"k"}, Metrics{1, 2, 0.5, 0})
	// Some search types have no position. Members have no order.
	wantRows(t, `{"rows":[{"impressions":2,"clicks":1,"keys":["k"]}]}`, []string{"k"}, Metrics{1, 2, 0.5, 0})
	wantRows(t, `{"rows":[{"position":3.5,"ctr":0.5,"impressions":2,"clicks":1,"keys":["k"]}]}`, []string{"k"}, Metrics{1, 2, 0.5, 3.5})
}

// The requests leave ctr out. It is what the upstream computes from the other members.
func TestReadRowsWithoutCTR(t *testing.T) {
	f := func(clicks, impressions, want string) {
		t.Helper()
		with := oneRow("k", clicks, impressions, want, "3.5")
		for _, without := range []string{strings.Replace(with, `"ctr":`+want+`,`, "", 1),
			strings.Replace(strings.Replace(with, `"ctr":`+want+`,`, "", 1), ",", " ,\n\t", -1)} {
			rows, err := readRows([]byte(without), ByQuery)
			whole, wholeErr := readRows([]byte(with), ByQuery)
			if err != nil || wholeErr != nil || !equalRows(rows, whole) {
				t.Errorf("%s: %v %v, want %v %v", without, rows, err, whole, wholeErr)
			}
		}
	}
	f("0", "0", "0")
	f("0", "3", "0")
	f("5", "5", "1")
	f("2", "0", "0")
	// Of recorded answers.
	f("18548", "1652038", "0.011227344649457216")
	f("17610", "1571473", "0.011206046810858348")
	f("9007199254740992", "9007199254740991", "1.0000000000000002")
	// A row that could not be stored is refused, as it is with such a ctr.
	wantNoRows(t, `{"rows":[{"keys":["k"],"clicks":2147483648,"impressions":1,"position":1}]}`)
	wantNoRows(t, `{"rows":[{"clicks":2147483648,"impressions":1,"keys":["k"]}]}`)
}

func TestReadRowsNumbers(t *testing.T) {
	f := func(clicks string, want int64) {
		t.Helper()
		wantRows(t, oneRow("k", clicks, clicks, "0", "0"), []string{"k"}, Metrics{Clicks: want, Impressions: want})
	}
	f("12", 12)
	f("12.0", 12)
	f("1.2E1", 12)
	f("1.2e+1", 12)
	f("120E-1", 12)
	f("0", 0)
	f("0.0", 0)
	f("0e5", 0)
	f("1E2", 100)
	f("11.999999999999998", 12) // a float64 from a sum
	f("999999999999999", 999_999_999_999_999)
	f("1000000000000000", 1_000_000_000_000_000)
	f("9007199254740992", 1<<53)
	fraction := func(text string, want float64) {
		t.Helper()
		wantRows(t, oneRow("k", "1", "1", text, text), []string{"k"}, Metrics{1, 1, want, want})
	}
	fraction("9.8E-4", 0.00098)
	fraction("9.8e-04", 0.00098)
	fraction("0.00098", 0.00098)
	fraction("9.5440029550272758", 9.5440029550272758)
	fraction("8.416666666666668", 8.416666666666668)
	fraction("74", 74)
	fraction("74.0", 74)
	fraction("5e-324", 5e-324)
	fraction("1e-400", 0)
	fraction("2147483647", 2147483647)

	for _, text := range []string{"-1", "-0", "-0.5", "1e400", "9007199254740994", "+1", "01", "00", "1.", ".5", "1e", "1e+", "0x10", "1_0", "1 2",
		"NaN", "Infinity", "null", "true", `"12"`, "[12]", "{}", "", "--1", "1-", "1..2", "1e1e1", "１", "1\x00"} {
		wantNoRows(t, oneRow("k", text, "1", "0", "0"))
		wantNoRows(t, oneRow("k", "1", text, "0", "0"))
	}
	for _, text := range []string{"-1", "-0.5", "1e400", "2147483648", "null", `"0.5"`, "", "01", "1.", "nan", "[]"} {
		wantNoRows(t, oneRow("k", "1", "1", text, "1"))
		wantNoRows(t, oneRow("k", "1", "1", "1", text))
	}
}

func TestReadRowsEscapes(t *testing.T) {
	f := func(key, want string) {
		t.Helper()
		wantRows(t, oneRow(key, "1", "1", "1", "1"), []string{want}, Metrics{1, 1, 1, 1})
	}
	f(`\"\\\/\b\f\n\r\t`, "\"\\/\b\f\n\r\t")
	f(`a\u0041\u00e9\u4E2D\u0000z`, "aAé中\x00z")
	f(`\ud83d\ude00`, "😀")
	f(`\uD83D\uDE00!`, "😀!")
	f(`\u005cu0041`, `\u0041`)
	f(`\\u0041`, `\u0041`)
	f("caf\u00e9 中😀\u2028\u007f", "café 中😀\u2028\u007f")
	// Lone surrogates and invalid UTF-8 become the replacement character.
	f(`\ud83d`, "\ufffd")
	f(`\ude00`, "\ufffd")
	f(`\ud83d\ud83d\ude00`, "\ufffd😀")
	f(`\ud83dA`, "\ufffdA")
	f(`\ud83d\u0041`, "\ufffdA")
	f(`\ud83d\n`, "\ufffd\n")
	f(`\ude00\ud83d`, "\ufffd\ufffd")
	f("a\xffb", "a\ufffdb")
	f("\xed\xa0\x80", "\ufffd\ufffd\ufffd")
	f("\xc3", "\ufffd")
	f(`\n`+"\xc3\xa9\xff", "\né\ufffd")
	f("\ufffd", "\ufffd")

	for _, key := range []string{`\`, `\x41`, `\u`, `\u12`, `\u12G4`, `\u-123`, `\u+123`, `\ud83d\u`, `\U0041`, `\'`, `\0`, "a\nb", "a\tb",
		"a\x00b", "\x1f", `\` + "\n"} {
		wantNoRows(t, oneRow(key, "1", "1", "1", "1"))
	}
}

func TestReadRowsRefusesMalformedRows(t *testing.T) {
	for _, rows := range []string{"null", "{}", `""`, "1", "[null]", "[1]", `["a"]`, "[[]]", "[{}]", "[{},]", "[,]",
		`[{"keys":["a"],"clicks":1}]`, `[{"keys":["a"],"impressions":1}]`, `[{"clicks":1,"impressions":1}]`,
		`[{"keys":[],"clicks":1,"impressions":1}]`, `[{"keys":["a","b"],"clicks":1,"impressions":1}]`, `[{"keys":"a","clicks":1,"impressions":1}]`,
		`[{"keys":[1],"clicks":1,"impressions":1}]`, `[{"keys":[null],"clicks":1,"impressions":1}]`, `[{"keys":["a",],"clicks":1,"impressions":1}]`,
		`[{"keys":null,"clicks":1,"impressions":1}]`, `[{"keys":["a"],"clicks":1,"impressions":1,}]`, `[{"keys":["a"],"clicks":1 "impressions":1}]`,
		`[{"keys":["a"],"clicks":1,,"impressions":1}]`, `[{"keys":["a"]"clicks":1,"impressions":1}]`, `[{"keys" ["a"],"clicks":1,"impressions":1}]`,
		`[{"keys":["a"],"clicks":1,"impressions":1} {"keys":["a"],"clicks":1,"impressions":1}]`,
		`[{"keys":["a"],"keys":["b"],"clicks":1,"impressions":1}]`, `[{"keys":["a"],"clicks":1,"clicks":1,"impressions":1}]`,
		`[{"keys":["a"],"clicks":1,"impressions":1,"impressions":1}]`, `[{"keys":["a"],"clicks":1,"impressions":1,"ctr":0,"ctr":0}]`,
		`[{"keys":["a"],"clicks":1,"impressions":1,"position":0,"position":0}]`,
		`[{"keys":["a"],"Clicks":1,"impressions":1}]`, `[{keys:["a"],"clicks":1,"impressions":1}]`,
		`[{"keys":["a"],"clicks":1,"impressions":1,"x":nul}]`, `[{"keys":["a"],"clicks":1,"impressions":1,"x":01}]`,
		`[{"keys":["a"],"clicks":1,"impressions":1,"x":[}]}]`, `[{"keys":["a"],"clicks":1,"impressions":1,"x":{"a"}}]`,
		`[{"keys":["a"],"clicks":1,"impressions":1,"x":}]`, `[{"keys":["a"],"clicks":1,"impressions":1,"x":"\q"}]`,
		`[{"keys":["a"],"clicks":1,"impressions":1,"x":{"a":1,"b":[1,2}]}]`, `[{"keys":["a"],"clicks":1,"impressions":1,"x":1,2}]`} {
		wantNoRows(t, `{"rows":`+rows+`}`)
	}
	for _, body := range []string{"", " ", "null", "[]", `"rows"`, "1", "{", "}", "{]", `{"rows"}`, `{"rows":}`, `{"rows":[],}`,
		`{,"rows":[]}`, `{rows:[]}`, `{"rows":[],"rows":[]}`, `{"rows":[]"x":1}`, `{"rows" []}`, "\ufeff{}", "<html></html>", `{"x":}`,
		`{"x":1,}`, `{"x":tru}`, `{"x"}`, `{'rows':[]}`} {
		wantNoRows(t, body)
	}
}

func TestReadRowsRefusesTrailingData(t *testing.T) {
	for _, tail := range []string{"x", "{}", ",", "]", "}", "null", "\x00", "\x00junk", " \x00", "\ufeff", "//"} {
		wantNoRows(t, `{"rows":[]}`+tail)
	}
	for _, tail := range []string{"", "\n", " \t\r\n"} {
		wantRows(t, `{"rows":[]}`+tail, nil)
	}
}

// JSON that is no response, for example from a proxy in between, is not accepted as a response without rows.
func TestReadRowsRefusesOtherDocuments(t *testing.T) {
	for _, body := range []string{`{}`, " { } ", `{"error":{"code":403}}`, `{"login":"please","metadata":{"responseAggregationType":"auto"}}`} {
		wantNoRows(t, body)
	}
}

// An escaped name is the same name: skipping "row\u0073" would return no rows.
func TestReadRowsMemberNamesMayHaveEscapes(t *testing.T) {
	wantRows(t, `{"row\u0073":[{"\u006beys":["a"],"clic\u006bs":7,"impressions":9,"\u0063tr":0.5,"posi\u0074ion":3}]}`,
		[]string{"a"}, Metrics{7, 9, 0.5, 3})
	wantNoRows(t, `{"rows":[],"\u0072ows":[]}`)
	wantNoRows(t, `{"rows":[{"keys":["a"],"clicks":7,"cli\u0063ks":8,"impressions":9}]}`)
}

func TestReadRowsBoundsNesting(t *testing.T) {
	nested := func(depth int) string {
		return `{"responseAggregationType":"auto","metadata":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`
	}
	wantRows(t, nested(100), nil)
	wantNoRows(t, nested(8_000_000))
	wantNoRows(t, `{"metadata":`+strings.Repeat(`{"a":`, 100_000)+"1"+strings.Repeat("}", 100_000)+"}")
}

// A truncated response is never accepted as a shorter one.
func TestReadRowsRefusesTruncatedBodies(t *testing.T) {
	for _, body := range []string{string(upstreamBody(7)),
		`{"rows":[{"keys":["a\u00e9\ud83d\ude00"],"clicks":12.0,"impressions":1.2E1,"ctr":1,"position":9.8E-4,"x":[{"y":null}]}],"metadata":{"a":1}}`,
		`{"responseAggregationType":"byProperty"}`, `{"rows":[]}`} {
		if _, err := readRows([]byte(body), ByQuery); err != nil {
			t.Fatal(err)
		}
		for n := range len(body) {
			wantNoRows(t, body[:n])
		}
	}
}

// A corrupt byte never makes rows fewer: each byte after the member's name is replaced by each of these.
func TestReadRowsNeverLosesRowsToACorruptByte(t *testing.T) {
	body := upstreamBody(3)
	for i := len(`{"rows"`); i < len(body); i++ {
		for _, c := range []byte("\x00\" \\,:[]{}0a\xff") {
			broken := bytes.Clone(body)
			broken[i] = c
			if rows, err := readRows(broken, ByQuery); err == nil && rows.Len() != 3 {
				t.Fatalf("byte %d as %q: %d rows", i, c, rows.Len())
			}
		}
	}
}

func TestReadRowsErrorsHavePositionAndReason(t *testing.T) {
	f := func(body, want string) {
		t.Helper()
		if _, err := readRows([]byte(body), ByQuery); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	good := `{"keys":["a"],"clicks":1,"impressions":1}`
	f(`{"rows":[`+good+`,{"keys":["a"],"clicks":-1}]}`, `upstream body, after 1 row and 74 bytes: member "clicks": it is not a number from 0 to 2^53`)
	f(`{"rows":[{"position":"x"}]}`, `upstream body, after 0 rows and 21 bytes: member "position": it is not a number in its range`)
	f(`{"rows":[`+good+`],"rows":[]}`, `upstream body, after 1 row and 59 bytes: there are rows twice`)
	f(`{"rows":[{"keys":["a"]}]}`, `upstream body, after 0 rows and 23 bytes: a row without keys, clicks or impressions`)
	f(`{"rows":[{"ctr":1,"ctr":1}]}`, `upstream body, after 0 rows and 25 bytes: member "ctr": it is there twice`)
	f(`{"rows":[`, `upstream body, after 0 rows and 9 bytes: invalid JSON, or not a response`)
}

func TestCountryKeysAreLowerCase(t *testing.T) {
	body := []byte(`{"rows":[{"keys":["USA"],"clicks":2,"impressions":2},{"keys":["deu"],"clicks":1,"impressions":2},` +
		`{"keys":["\u005aZz"],"clicks":1,"impressions":2}]}`)
	for by, want := range map[Dimension]string{ByCountry: "usa deu zzz", ByDevice: "USA deu ZZz", ByQuery: "USA deu ZZz", ByPage: "USA deu ZZz"} {
		rows, err := readRows(body, by)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %s %s", rows.Key(0), rows.Key(1), rows.Key(2)); got != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
}

// The buffer of the body is reused.
func TestRowsDoNotRetainTheBody(t *testing.T) {
	body := upstreamBody(50)
	rows, err := readRows(body, ByQuery)
	if err != nil {
		t.Fatal(err)
	}
	before := keyText(rows)
	clear(body)
	for i := range rows.Len() {
		key := rows.Key(i)
		if !utf8.Valid(key) || len(key) == 0 || cap(key) != len(key) {
			t.Fatalf("row %d: key %q of capacity %d", i, key, cap(key))
		}
	}
	if keyText(rows) != before {
		t.Error("the keys changed with the body")
	}
	bad := []byte(`{"rows":[{"keys":["a"],"clicks":1,"impressions":1,"unknown":x}]}`)
	_, err = readRows(bad, ByQuery)
	message := err.Error()
	clear(bad)
	if err.Error() != message {
		t.Error("the error changed with the body")
	}
}

func TestReadRowsEqualsGenerator(t *testing.T) {
	body := upstreamBody(2000)
	rows, err := readRows(body, ByQuery)
	if err != nil {
		t.Fatal(err)
	}
	want, err := referenceRows(body)
	if err != nil {
		t.Fatal(err)
	}
	if err := sameRows(rows, want); err != nil {
		t.Error(err)
	}
}

func TestBuiltRowsEqualReadRows(t *testing.T) {
	read, err := readRows([]byte(`{"rows":[{"keys":["b"],"clicks":2,"impressions":4,"ctr":0.5,"position":1.5},`+
		`{"keys":[""],"clicks":0,"impressions":1,"ctr":0,"position":9}]}`), ByQuery)
	if err != nil {
		t.Fatal(err)
	}
	var b RowsBuilder
	for range 2 { // a builder can be reused
		b.Grow(2, 1)
		b.Add([]byte("b"), Metrics{Clicks: 2, Impressions: 4, CTR: 0.5, Position: 1.5})
		b.Add(nil, Metrics{Impressions: 1, Position: 9})
		built := b.Rows()
		if built.Len() != read.Len() {
			t.Fatalf("%d rows, want %d", built.Len(), read.Len())
		}
		for i := range read.Len() {
			if string(built.Key(i)) != string(read.Key(i)) || !reflect.DeepEqual(built.Metrics(i), read.Metrics(i)) {
				t.Errorf("row %d: %q %+v, want %q %+v", i, built.Key(i), built.Metrics(i), read.Key(i), read.Metrics(i))
			}
		}
	}
}
