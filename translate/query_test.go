package translate

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// golden compares got with a file in testdata, plus a newline. -update rewrites the file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(got[:len(got):len(got)], '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got)+"\n" != string(want) {
		t.Errorf("%s:\n got %s\nwant %s", path, got, want)
	}
}

func TestQueryBodies(t *testing.T) {
	const site = "sc-domain:example.com"
	r := DateRange{Start: day("2026-05-17"), End: day("2026-06-13")}
	conditions := func(filters string) []Condition {
		parsed, err := ParseFilters(filters)
		if err != nil {
			t.Fatal(err)
		}
		conditions, err := Conditions(parsed, segments())
		if err != nil {
			t.Fatal(err)
		}
		return conditions
	}
	f := func(name string, q Query) {
		t.Helper()
		body := q.Body()
		if !json.Valid(body) {
			t.Errorf("%s: %s", name, body)
		}
		golden(t, filepath.Join("query", name+".json"), body)
	}
	f("series", SeriesQuery(site, r, nil))
	f("series_empty_conditions", SeriesQuery(site, DateRange{Start: r.End, End: r.End}, []Condition{}))
	f("series_filtered", SeriesQuery(site, r,
		conditions(`[{"dimension":"device","operator":"is","value":"mobile"},{"dimension":"brand","operator":"is","value":"non-brand"}]`)))
	for _, by := range []Dimension{ByQuery, ByPage, ByCountry, ByDevice} {
		f("narrow_"+by.String(), SampleQuery(site, by, r, nil, parseOrder(DefaultOrder), 1))
	}
	f("day_query", DayQuery(site, ByQuery, r.End, 100))
	f("day_country", DayQuery(site, ByCountry, r.End, 100))
	f("wide", SampleQuery(site, ByQuery, r, nil, parseOrder("-impressions"), 1))
	f("every_operator", SampleQuery(site, ByPage, r, conditions(`[
		{"dimension":"query","operator":"contains","value":"a"},
		{"dimension":"query","operator":"not_contains","value":"b"},
		{"dimension":"page","operator":"equals","value":"https://example.com/?a=1&b=<2>"},
		{"dimension":"page","operator":"not_equals","value":"https://example.com/"},
		{"dimension":"query","operator":"regex","value":"\\bshoes?\\b"},
		{"dimension":"query","operator":"not_regex","value":"a|b"},
		{"dimension":"country","operator":"is","value":"DEU"},
		{"dimension":"device","operator":"is_not","value":"tablet"},
		{"dimension":"brand","operator":"is","value":"brand"},
		{"dimension":"page_group","operator":"is_not","value":"blog"}]`), parseOrder(DefaultOrder), 1))
	f("escapes", SampleQuery(site, ByQuery, r,
		conditions(oneFilter("query", "equals", `\"\\\/\b\f\n\r\t\u0001\u001f\u007f é中😀\u2028</script>`)), parseOrder("key"), 1))
}

// The wide sample answers every order but the default, and the narrow one every limit of the default order.
func TestOrdersShareSamples(t *testing.T) {
	for _, order := range Orders() {
		q := SampleQuery("s", ByQuery, DateRange{}, nil, parseOrder(order), 1)
		want := WideSample
		if order == DefaultOrder {
			want = NarrowSample
		}
		if q.RowLimit != want {
			t.Errorf("%s has row limit %d, want %d", order, q.RowLimit, want)
		}
	}
	for _, by := range []Dimension{ByCountry, ByDevice} {
		if n := WideQuery("s", by, DateRange{}).RowLimit; n != NarrowSample {
			t.Errorf("by %s has row limit %d, want %d: they are all there are", by, n, NarrowSample)
		}
		for _, order := range Orders() {
			if n := SampleQuery("s", by, DateRange{}, nil, parseOrder(order), 1).RowLimit; n != NarrowSample {
				t.Errorf("by %s in order %s has row limit %d, want %d", by, order, n, NarrowSample)
			}
		}
	}
	movers, wide := WideQuery("s", ByQuery, DateRange{}), SampleQuery("s", ByQuery, DateRange{}, nil, parseOrder("impressions"), 1)
	if got, want := string(movers.Body()), string(wide.Body()); got != want || movers.Site != wide.Site {
		t.Errorf("movers have the query %s, want the wide sample: %s", got, want)
	}
	if NarrowSample != 1001 || WideSample != 25_000 {
		t.Error("a sample is one row more than the largest limit, or all that one call returns")
	}
}

func TestSiblingAndAnsweredBy(t *testing.T) {
	r := DateRange{Start: day("2026-06-01"), End: day("2026-06-13")}
	conditions := []Condition{{"query", "contains", "a"}}
	for _, by := range []Dimension{ByQuery, ByPage} {
		narrow := SampleQuery("s", by, r, conditions, parseOrder(DefaultOrder), 1)
		wide := SampleQuery("s", by, r, conditions, parseOrder("key"), 1)
		for _, pair := range [][2]Query{{narrow, wide}, {wide, narrow}} {
			if got, ok := pair[0].Sibling(); !ok || !reflect.DeepEqual(got, pair[1]) {
				t.Errorf("the sibling of %v is %v, %v", pair[0], got, ok)
			}
		}
		f := func(q, other Query, rows int, want bool) {
			t.Helper()
			if q.AnsweredBy(other, rows) != want {
				t.Errorf("%d rows for %d answer %d: %v, want %v", rows, other.RowLimit, q.RowLimit, !want, want)
			}
		}
		for _, rows := range []int{0, 1, NarrowSample - 1, NarrowSample} {
			f(narrow, narrow, rows, true)
			f(narrow, wide, rows, true)
			f(wide, wide, rows, true)
			f(wide, narrow, rows, rows < NarrowSample)
		}
		f(narrow, wide, WideSample, true)
		f(wide, wide, WideSample, true)
	}
	for _, q := range []Query{SeriesQuery("s", r, nil), WideQuery("s", ByCountry, r), WideQuery("s", ByDevice, r),
		SampleQuery("s", ByDevice, r, nil, parseOrder(DefaultOrder), 1), {Dimension: ByQuery, RowLimit: 7}} {
		if sibling, ok := q.Sibling(); ok {
			t.Errorf("%v has the sibling %v", q, sibling)
		}
	}
}

// The response does not depend on the sample, even if rows tie across the end of the narrow one.
func TestEitherSampleGivesTheSameResponse(t *testing.T) {
	f := func(n int, orders ...string) {
		t.Helper()
		rows := make([]referenceRow, n)
		for i := range rows {
			rows[i] = referenceRow{fmt.Sprint("key ", n-i), Metrics{Clicks: int64(max(500-i, 0)), Impressions: int64(1 + i%7)}}
		}
		wide := rowsOf(t, rows)
		narrow := rowsOf(t, rows[:min(n, NarrowSample)])
		for _, order := range orders {
			asked, other, got, want := narrow, wide, NarrowSample, WideSample
			q := SampleQuery("s", ByQuery, DateRange{}, nil, parseOrder(order), 1)
			if q.RowLimit == WideSample {
				asked, other, got, want = wide, narrow, WideSample, NarrowSample
			}
			sibling, ok := q.Sibling()
			if !ok || q.RowLimit != got || sibling.RowLimit != want || !q.AnsweredBy(sibling, other.Len()) {
				t.Fatalf("%s of %d rows: %v, %v does not answer", order, n, sibling, ok)
			}
			for _, limit := range []int{1, 700, 1000} {
				params := &Params{Limit: limit, Order: parseOrder(order)}
				direct, cached := breakdownHead(nil, params, ByQuery, asked, Origin{}), breakdownHead(nil, params, ByQuery, other, Origin{})
				if !bytes.Equal(direct, cached) {
					t.Errorf("%s of %d rows, limit %d: the answers differ", order, n, limit)
				}
			}
		}
	}
	f(1500, DefaultOrder)
	f(NarrowSample, DefaultOrder)
	f(NarrowSample-1, Orders()...)
	f(0, Orders()...)
}

func TestDimensionString(t *testing.T) {
	got := fmt.Sprint(ByDate, ByQuery, ByPage, ByCountry, ByDevice, ByDayAndCountry, ByDayAndDevice, Dimension(9))
	if want := "date query page country device date,country date,device BUG: dimension 9"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Strings survive encoding and decoding.
func TestStringsRoundTripThroughJSON(t *testing.T) {
	f := func(s string) {
		t.Helper()
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil || got != s {
			t.Errorf("%q round-trips as %q, %v", s, got, err)
		}
	}
	f("")
	for r := range rune(0x3000) {
		f(string(r))
		f("a" + string(r) + "b")
	}
	f("😀\u2028\u2029\ufffd\U0010ffff")
}
