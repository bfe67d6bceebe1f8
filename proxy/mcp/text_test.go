package mcp

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// People paste titles into the search box: "Shoes | Acme". A model must not read a part of one as a figure.
func TestCellsOfATableAreToldApart(t *testing.T) {
	t.Parallel()
	tables := performanceTools()[0]
	text := tables.text(content(`{"data":{"rows":[{"key":"shoes | 99 | 1","clicks":5},{"key":"| sale","clicks":4},`+
		`{"key":"a|b \"c\"","clicks":3},{"key":"x\r\ny","clicks":2}]},`+
		`"meta":{}}`), gjson.Result{})
	want := "key | clicks\n\"shoes | 99 | 1\" | 5\n\"| sale\" | 4\na|b \"c\" | 3\nx y | 2"
	if !strings.HasSuffix(text, want) {
		t.Errorf("the text is\n%s\nwant at its end\n%s", text, want)
	}
}

// A model that reads only the text must know that there are more rows, and which offset has the next ones: one, and the right one.
func TestTextSaysWhereTheRowsGoOn(t *testing.T) {
	t.Parallel()
	const cut = "Cut to fit a result. For the next rows call again with offset 2."
	urls := indexingTools()[1]
	for meta, want := range map[string]string{
		`{"offset":0,"row_count":2,"total":2}`:          "",
		`{"offset":3,"row_count":2,"total":5}`:          "",
		`{"offset":0,"row_count":2,"total":120}`:        "More rows, 120 in all: call again with offset 2.",
		`{"offset":100,"row_count":2,"total":120}`:      "More rows, 120 in all: call again with offset 102.",
		`{"offset":120,"row_count":0,"total":120}`:      "No rows from offset 120 on: there are 120.",
		`{"row_count":2,"total":null,"has_more":true}`:  "More rows: call again with offset 2.",
		`{"row_count":2,"total":null,"has_more":false}`: "",
		`{"row_count":250,"total":null,"has_more":true,"cut":{"how":"For the next rows call again with offset 2."}}`: cut,
		`{"offset":0,"row_count":250,"total":900,"cut":{"how":"For the next rows call again with offset 2."}}`:       cut,
		`{"offset":0,"row_count":250,"total":250,"cut":{"how":"For the next rows call again with offset 2."}}`:       cut,
	} {
		text := urls.text(content(`{"data":{"rows":[{"url":"https://a.example/"},{"url":"https://b.example/"}]},"meta":`+meta+`}`), gjson.Result{})
		if _, got, _ := strings.Cut(text, "https://b.example/"); strings.TrimSpace(got) != want {
			t.Errorf("%s: the text ends in %q, want %q", meta, got, want)
		}
	}
}

// All that a model without structured content learns: totals, their change, and values of every type.
func TestTextShowsEveryTypeOfValue(t *testing.T) {
	t.Parallel()
	text := (&tool{lists: []string{"data.sites", "data.gainers"}}).text(content(`{"data":{`+
		`"totals":{"clicks":8,"impressions":100,"ctr":0.08,"position":3.25},`+
		`"previous":{"start_date":"2026-01-01","end_date":"2026-01-07","clicks":10,"impressions":80,"ctr":0.125,"position":4},`+
		`"status":"ready","sitemap":null,"deep":{"in":{}},"plan":{"name":"pro","until":null,"scopes":["a"],"keys":3},"sites":[`+
		`{"name":"a","is":{"clicks":1,"impressions":2,"ctr":0.5,"position":1},"plan":{"x":1,"y":[]},"notes":["n","m"],"of":[{"z":2},"w"],"error":null},`+
		`{"name":"b","ctr":0.5}],"gainers":[{"key":"k","clicks":3,"ctr":0.5,"position":2.25,"clicks_delta":1}]},`+
		`"meta":{"date_range":{"start_date":"2026-01-08","end_date":"2026-01-14"},"source":"live"}}`), gjson.Result{})
	want := `2026-01-08 to 2026-01-14 (Pacific days), source live
Totals: 8 clicks, 100 impressions, ctr 8.00 %, position 3.2
Before (2026-01-01 to 2026-01-07): 10 clicks, 80 impressions, ctr 12.50 %, position 4.0
Clicks changed by -2 (-20.0 %)
status: ready
plan: name pro, keys 3

sites (2)
name | is | plan | notes | of | error
a | 1 click, 2 impressions, ctr 50.00 %, position 1.0 | x 1 | n; m | z 2; w | -
b | - | - | - | - | -

gainers (1)
key | clicks | ctr | position | clicks_delta
k | 3 | 50.00 % | 2.2 | 1`
	if text != want {
		t.Errorf("the text is\n%s\nwant\n%s", text, want)
	}
}

// A list that has no more rows than the cut ones is whole, and is not said to be cut.
func TestOnlyLongerListsAreCut(t *testing.T) {
	t.Parallel()
	o := overview()
	c := o.cut(content(`{"data":{"queries":[{"key":"a"},{"key":"b"},{"key":"c"}],"pages":[{"key":"d"},{"key":"e"}]},"meta":{}}`), 2)
	const want = `{"data":{"queries":[{"key":"a"},{"key":"b"}],"pages":[{"key":"d"},{"key":"e"}]},"meta":{"cut":{"data.queries":{"shown":2,"of":3},` +
		`"how":"For the other rows call query_performance or find_movers."}}}`
	if string(c) != want {
		t.Errorf("cut to\n%s\nwant\n%s", c, want)
	}
}

// One is no plural, and a large number has no commas.
func TestTextCountsThings(t *testing.T) {
	t.Parallel()
	text := performanceTools()[0].text(content(`{"data":{"rows":[{"key":"a","clicks":1}]},"meta":{}}`),
		gjson.Parse(`{"clicks":1,"impressions":1234567}`))
	for _, want := range []string{"Totals: 1 click, 1234567 impressions, ", "rows (1): 1 click, 100 % of the totals"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	for seconds, want := range map[int]string{1: "Wait 1 second before you call again.", 86399: "Wait 86399 seconds before you call again."} {
		if got := (&failure{RetryAfter: &seconds}).next(); got != want {
			t.Errorf("after %d seconds: %s", seconds, got)
		}
	}
}

// Archived figures must not be presented as current ones: the text names the source of a result with parts too.
func TestTextNamesTheSourcesOfParts(t *testing.T) {
	t.Parallel()
	o := overview()
	for parts, want := range map[string]string{
		`"totals":{"source":"stored"},"movers":{"source":"stored"}`:                           "source stored",
		`"totals":{"source":"live"},"movers":{"source":"stored"},"series":{"source":"live"}`:  "source live (totals, series), stored (movers)",
		`"totals":{"source":"hybrid"},"movers":{"source":"live"},"pages":{"source":"stored"}`: "source hybrid (totals), live (movers), stored (pages)",
		`"totals":{"source":"live"},"movers":{"source":null}`:                                 "source live",
	} {
		text := o.text(content(`{"data":{},"meta":{"date_range":{"start_date":"2026-01-01","end_date":"2026-01-28"},"parts":{`+parts+`}}}`), gjson.Result{})
		if got, _, _ := strings.Cut(text, "\n"); got != "2026-01-01 to 2026-01-28 (Pacific days), "+want {
			t.Errorf("%s: the text begins with %q, want %q", parts, got, want)
		}
	}
}

// Rows are of all days, and the totals of a comparison only of those that both periods have: the rows are no share of them.
func TestRowsAreNoShareOfAComparison(t *testing.T) {
	t.Parallel()
	o := overview()
	text := o.text(content(`{"data":{"totals":{"clicks":5},"previous":{"clicks":4},"series":null,"queries":[{"key":"a","clicks":10}]},"meta":{}}`),
		gjson.Result{})
	if !strings.Contains(text, "queries (1): 10 clicks together, which is not the total") {
		t.Errorf("the text is\n%s", text)
	}
}

// Without impressions there is no average position, and no ctr. 0.0 would read as a position before the first.
func TestTextHasNoPositionWithoutImpressions(t *testing.T) {
	t.Parallel()
	tables := performanceTools()
	text := tables[3].text(content(`{"data":{"gainers":[{"key":"a","clicks":5,"impressions":9,"previous_impressions":0,"position":3.14,`+
		`"previous_position":0}],"losers":[{"key":"b","clicks":0,"impressions":0,"previous_impressions":9,"position":0,"previous_position":2}]},`+
		`"meta":{}}`), gjson.Result{})
	for _, want := range []string{"a | 5 | 9 | 0 | 3.1 | -", "b | 0 | 0 | 9 | - | 2"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	text = tables[1].text(content(`{"data":{"rows":[{"date":"2026-11-01","clicks":0,"impressions":0,"ctr":0,"position":0}],`+
		`"totals":{"clicks":0,"impressions":0,"ctr":0,"position":0}},"meta":{}}`), gjson.Result{})
	for _, want := range []string{"Totals: 0 clicks, 0 impressions\n", "2026-11-01 | 0 | 0 | - | -"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
}
