package gscsim_test

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	searchconsole "google.golang.org/api/searchconsole/v1"
)

type request = searchconsole.SearchAnalyticsQueryRequest

func by(dimensions ...string) *request {
	return &request{Dimensions: dimensions, RowLimit: 25000}
}

// where returns filters, each "dimension operator expression".
func where(filters ...string) []*searchconsole.ApiDimensionFilterGroup {
	group := &searchconsole.ApiDimensionFilterGroup{}
	for _, f := range filters {
		parts := strings.SplitN(f, " ", 3)
		group.Filters = append(group.Filters, &searchconsole.ApiDimensionFilter{Dimension: parts[0], Operator: parts[1], Expression: parts[2]})
	}
	return []*searchconsole.ApiDimensionFilterGroup{group}
}

type sums struct{ clicks, impressions, positions float64 }

func add(rows []*searchconsole.ApiDataRow) sums {
	var s sums
	for _, r := range rows {
		s.clicks += r.Clicks
		s.impressions += r.Impressions
		s.positions += math.Round(r.Position * r.Impressions)
	}
	return s
}

func TestCompleteDimensionsSumToTheTotals(t *testing.T) {
	s := start(t, testConfig())
	totals := add(s.ask(t, &request{}).Rows)
	for _, dimensions := range [][]string{{"country"}, {"device"}, {"date"}, {"country", "device"}, {"date", "device", "country"}} {
		if got := add(s.ask(t, by(dimensions...)).Rows); got != totals {
			t.Errorf("by %v: %v, totals %v", dimensions, got, totals)
		}
	}
	byPage := add(s.ask(t, &request{AggregationType: "byPage"}).Rows)
	if got := add(s.ask(t, by("page", "device")).Rows); got != byPage {
		t.Errorf("by page and device: %v, totals %v", got, byPage)
	}
	if byPage.clicks != totals.clicks || byPage.impressions <= totals.impressions {
		t.Errorf("by page %v, by property %v: a second URL counts by page only", byPage, totals)
	}
}

func TestAnonymisedTrafficIsInTotalsOnly(t *testing.T) {
	s := start(t, testConfig())
	totals := add(s.ask(t, &request{}).Rows)
	named := add(s.ask(t, by("query")).Rows)
	if share := named.impressions / totals.impressions; share < 0.6 || share > 0.95 || named.clicks >= totals.clicks {
		t.Errorf("query rows %v of totals %v", named, totals)
	}
	brand := add(s.ask(t, &request{DimensionFilterGroups: where("query contains EXAMPLE")}).Rows)
	others := add(s.ask(t, &request{DimensionFilterGroups: where("query notContains example")}).Rows)
	if brand.clicks+others.clicks != named.clicks || brand.impressions+others.impressions != named.impressions {
		t.Errorf("brand %v and others %v are not the named queries %v", brand, others, named)
	}
	if share := brand.impressions / named.impressions; share < 0.1 || share > 0.7 {
		t.Errorf("the brand has %.2f of the named impressions", share)
	}
	// Any filter on query drops it, even one that matches every query; a filter on another dimension does not.
	if all := add(s.ask(t, &request{DimensionFilterGroups: where("query includingRegex .|\n")}).Rows); all != named {
		t.Errorf("filtered on every query %v, named %v", all, named)
	}
	if all := add(s.ask(t, &request{DimensionFilterGroups: where("device notEquals none")}).Rows); all != totals {
		t.Errorf("filtered on every device %v, totals %v", all, totals)
	}
}

func TestRowsByClicksThenKeys(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig())
	for _, dimensions := range [][]string{{"query"}, {"page"}, {"country"}, {"device"}, {"page", "query"}, {"device", "country", "page"}} {
		rows := s.ask(t, by(dimensions...)).Rows
		ties := 0
		for i, r := range rows[1:] {
			before := rows[i]
			if before.Clicks == r.Clicks {
				ties++
			}
			if cmp.Or(cmp.Compare(r.Clicks, before.Clicks), slices.Compare(before.Keys, r.Keys)) >= 0 {
				t.Fatalf("by %v: %v does not come after %v", dimensions, r, before)
			}
		}
		if dimensions[0] != "device" && ties == 0 {
			t.Errorf("by %v: no ties among %d rows, the order of keys went untested", dimensions, len(rows))
		}
	}
	rows := s.ask(t, by("query", "date")).Rows
	if !slices.IsSortedFunc(rows, func(a, b *searchconsole.ApiDataRow) int {
		return cmp.Or(cmp.Compare(a.Keys[1], b.Keys[1]), cmp.Compare(b.Clicks, a.Clicks), cmp.Compare(a.Keys[0], b.Keys[0]))
	}) {
		t.Error("grouped by query and date, rows are not by date, clicks, query")
	}
}

func TestStartRowPagesThroughOneAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig())
	for _, dimensions := range [][]string{{"query"}, {"date", "device", "page"}} {
		whole := s.ask(t, by(dimensions...)).Rows
		var paged []*searchconsole.ApiDataRow
		for {
			r := by(dimensions...)
			r.RowLimit, r.StartRow = 333, int64(len(paged))
			part := s.ask(t, r).Rows
			if part == nil {
				break
			}
			paged = append(paged, part...)
		}
		if len(whole) < 1000 || !reflect.DeepEqual(whole, paged) {
			t.Errorf("by %v: %d rows at once, %d by pages", dimensions, len(whole), len(paged))
		}
	}
	if rows := s.ask(t, &request{Dimensions: []string{"query"}}).Rows; len(rows) != 1000 {
		t.Errorf("without a limit there are %d rows", len(rows))
	}
}

func TestFiltersAgreeWithTheRows(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig())
	all := s.ask(t, by("query", "device")).Rows
	for _, c := range []struct {
		filters []string
		holds   func(query, device string) bool
	}{
		{[]string{"query equals EXAMPLE"}, func(q, _ string) bool { return strings.EqualFold(q, "example") }},
		{[]string{"query notEquals example"}, func(q, _ string) bool { return !strings.EqualFold(q, "example") }},
		{[]string{"query contains Boots", "device equals mobile"}, func(q, d string) bool { return strings.Contains(q, "boots") && d == "MOBILE" }},
		{[]string{"query includingRegex ^EXAMPLE|boots$"}, func(q, _ string) bool {
			return strings.HasPrefix(strings.ToLower(q), "example") || strings.HasSuffix(q, "boots")
		}},
		{[]string{"query includingRegex (?-i)^Example"}, func(q, _ string) bool { return strings.HasPrefix(q, "Example") }},
		{[]string{"query excludingRegex e"}, func(q, _ string) bool { return !strings.Contains(strings.ToLower(q), "e") }},
		// The dot stops at a newline, and queries do have newlines.
		{[]string{"query excludingRegex ^.*$"}, func(q, _ string) bool { return strings.Contains(q, "\n") }},
		{[]string{"query includingRegex (?s)^.*$"}, func(string, string) bool { return true }},
		{[]string{`query contains \`, `query contains c:`}, func(q, _ string) bool { return strings.HasPrefix(q, `c:\`) }},
		{[]string{`query contains "`}, func(q, _ string) bool { return strings.Contains(q, `"`) }},
		{[]string{"query contains <B>"}, func(q, _ string) bool { return strings.HasPrefix(q, "<b>") }},
		{[]string{"query contains CAFÉ"}, func(q, _ string) bool { return strings.Contains(q, "café") }},
	} {
		var want []*searchconsole.ApiDataRow
		for _, r := range all {
			if c.holds(r.Keys[0], r.Keys[1]) {
				want = append(want, r)
			}
		}
		r := by("query", "device")
		r.DimensionFilterGroups = where(c.filters...)
		if got := s.ask(t, r).Rows; len(want) == 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %d rows, want %d", c.filters, len(got), len(want))
		}
	}
}

func TestGroupsOfFiltersAreANDed(t *testing.T) {
	s := start(t, testConfig())
	one := s.ask(t, &request{DimensionFilterGroups: where("query contains boots", "country equals USA", "page contains /blog/")})
	several := s.ask(t, &request{DimensionFilterGroups: append(where("query contains boots"), where("country equals usa", "page contains /blog/")...)})
	if one.Rows == nil || !reflect.DeepEqual(one.Rows, several.Rows) || one.ResponseAggregationType != "byPage" {
		t.Errorf("one group %+v, two groups %+v", one, several)
	}
}

func TestPagesAreReportedEncoded(t *testing.T) {
	s := start(t, testConfig())
	r := by("page")
	r.DimensionFilterGroups = where("page contains %F0%9F%8C%B7")
	encoded := s.ask(t, r).Rows
	r.DimensionFilterGroups = where("page contains 🌷")
	if decoded := s.ask(t, r).Rows; len(encoded) == 0 || decoded != nil {
		t.Errorf("%d rows encoded, %d decoded", len(encoded), len(decoded))
	}
}

func TestSearchAppearanceAloneAndAsFilter(t *testing.T) {
	s := start(t, testConfig())
	rows := s.ask(t, &request{Dimensions: []string{"SEARCH_APPEARANCE"}, AggregationType: "byPage"}).Rows
	if len(rows) == 0 {
		t.Fatal("no search appearances")
	}
	r := by("country")
	r.AggregationType = "byPage"
	r.DimensionFilterGroups = where("searchAppearance equals " + strings.ToLower(rows[0].Keys[0]))
	if got, want := add(s.ask(t, r).Rows), add(rows[:1]); got != want {
		t.Errorf("filtered on %s: %v, its row %v", rows[0].Keys[0], got, want)
	}
}

func TestServersOfOneConfigAgree(t *testing.T) {
	t.Parallel()
	a, b := start(t, testConfig()), start(t, testConfig())
	for _, dimensions := range [][]string{{"query", "page", "country", "device"}, {"date"}} {
		if !reflect.DeepEqual(a.ask(t, by(dimensions...)).Rows, b.ask(t, by(dimensions...)).Rows) {
			t.Errorf("by %v two servers differ", dimensions)
		}
	}
	other := testConfig()
	other.Seed++
	if c := start(t, other); reflect.DeepEqual(a.ask(t, by("date")).Rows, c.ask(t, by("date")).Rows) {
		t.Error("another seed gives the same data")
	}
	restricted, err := a.api.Searchanalytics.Query("sc-domain:restricted.example", lastWeek(by("date"))).Do()
	if err != nil || reflect.DeepEqual(a.ask(t, by("date")).Rows, restricted.Rows) {
		t.Errorf("another site gives the same data, or %v", err)
	}
}

func TestADayDoesNotChangeAsTimePasses(t *testing.T) {
	config := testConfig()
	before := start(t, config)
	config.Now = func() time.Time { return noon().AddDate(0, 9, 3) }
	after := start(t, config)
	if !reflect.DeepEqual(before.ask(t, by("query", "page")).Rows, after.ask(t, by("query", "page")).Rows) {
		t.Error("the same days differ nine months later")
	}
}

func TestMonthsBringGainersLosersNewAndLostQueries(t *testing.T) {
	s := start(t, testConfig())
	clicks := func(from, to string) map[string]float64 {
		r := by("query")
		r.StartDate, r.EndDate = from, to
		m := map[string]float64{}
		for _, row := range s.ask(t, r).Rows {
			m[row.Keys[0]] = row.Clicks
		}
		return m
	}
	then, now := clicks("2026-02-01", "2026-02-28"), clicks("2026-07-18", "2026-08-14")
	gained, lost, appeared, vanished := 0, 0, 0, 0
	for query, n := range now {
		switch old, had := then[query]; {
		case !had:
			appeared++
		case n > old:
			gained++
		case n < old:
			lost++
		}
	}
	for query := range then {
		if _, has := now[query]; !has {
			vanished++
		}
	}
	if min(gained, lost) < 100 || min(appeared, vanished) < 10 {
		t.Errorf("%d gained, %d lost, %d appeared, %d vanished", gained, lost, appeared, vanished)
	}
}

func TestNoImpressionIsAboveTheFirstPosition(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig())
	for _, r := range s.ask(t, by("date", "query", "page", "country", "device")).Rows {
		if r.Impressions < 1 || r.Clicks > r.Impressions || r.Position < 1 || r.Clicks != math.Trunc(r.Clicks) ||
			math.Abs(r.Ctr-r.Clicks/r.Impressions) > 1e-15 {
			t.Fatalf("impossible row %s", fmt.Sprintf("%+v", r))
		}
	}
}
