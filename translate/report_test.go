package translate

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// describe formats a Fetch.
func (n Fetch) describe() string {
	text := fmt.Sprintf("%s %s..%s:", n.By, n.Range.Start, n.Range.End)
	if n.Upstream != nil {
		text += fmt.Sprintf(" live %s..%s %d", n.Upstream.Range.Start, n.Upstream.Range.End, n.Upstream.RowLimit)
		if n.cut != nil {
			text += fmt.Sprintf(" cut to %s..%s", n.cut.days.Start, n.cut.days.End)
		}
		if len(n.Upstream.Conditions) > 0 {
			text += " filtered"
		}
	}
	for _, r := range n.Archive {
		text += fmt.Sprintf(" stored %s..%s", r.Start, r.End)
	}
	return text
}

// The upstream has 2025-02-14 to 2026-06-13.
func TestPlan(t *testing.T) {
	filters, device := []Condition{{"query", "contains", "a"}}, []Condition{{"device", "equals", "MOBILE"}}
	f := func(report Report, endpoint Endpoint, query string, conditions []Condition, want ...string) {
		t.Helper()
		params := mustParse(t, endpoint, query)
		var got []string
		for _, fetch := range report.Plan(params, Sources{Site: "sc-domain:example.com", Window: window()}, conditions).Fetches {
			got = append(got, fetch.describe())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s fetches\n%s, want\n%s", query, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	const live = "live 2025-02-14..2026-06-13 25000"
	f(SummaryReport(), Summary(), "date_range=last_7d", nil, "date 2025-02-14..2026-06-13: "+live)
	f(SummaryReport(), Summary(), "date_range=last_7d&compare=previous_period", nil, "date 2025-02-14..2026-06-13: "+live)
	f(TimeseriesReport(), Timeseries(), "start_date=2025-02-14&end_date=2025-02-20", nil, "date 2025-02-14..2026-06-13: "+live)
	f(SummaryReport(), Summary(), "date_range=last_7d", filters, "date 2026-05-31..2026-06-13: live 2026-05-31..2026-06-13 25000 filtered")
	f(SummaryReport(), Summary(), "start_date=2025-02-14&end_date=2025-02-20", filters,
		"date 2025-02-14..2025-02-20: live 2025-02-14..2025-02-20 25000 filtered")
	f(SummaryReport(), Summary(), "start_date=2025-02-14&end_date=2025-02-20&compare=previous_period", nil,
		"date 2025-02-07..2026-06-13: "+live+" stored 2025-02-07..2025-02-13")
	f(TimeseriesReport(), Timeseries(), "start_date=2025-01-01&end_date=2025-02-13", nil, "date 2025-01-01..2025-02-13: stored 2025-01-01..2025-02-13")

	f(BreakdownReport(ByQuery), Breakdown(), "date_range=last_7d", nil, "query 2026-06-07..2026-06-13: live 2026-06-07..2026-06-13 1001")
	f(BreakdownReport(ByPage), Breakdown(), "date_range=last_7d&order_by=key", filters,
		"page 2026-06-07..2026-06-13: live 2026-06-07..2026-06-13 25000 filtered")
	f(BreakdownReport(ByDevice), Breakdown(), "date_range=last_7d&order_by=key", nil,
		"device 2026-06-07..2026-06-13: "+live+" cut to 2026-06-07..2026-06-13")
	f(SummaryReport(), Summary(), "date_range=last_7d", device, "date 2026-05-31..2026-06-13: "+live+" cut to 2026-05-31..2026-06-13")
	f(BreakdownReport(ByCountry), Breakdown(), "date_range=last_7d", nil,
		"country 2026-06-07..2026-06-13: live 2026-03-10..2026-06-13 25000 cut to 2026-06-07..2026-06-13")
	f(BreakdownReport(ByCountry), Breakdown(), "date_range=last_7d", device, "country 2026-06-07..2026-06-13: live 2026-06-07..2026-06-13 1001 filtered")
	f(BreakdownReport(ByQuery), Breakdown(), "start_date=2025-02-10&end_date=2025-02-20", nil,
		"query 2025-02-10..2025-02-20: live 2025-02-14..2025-02-20 25000 stored 2025-02-10..2025-02-13")
	f(BreakdownReport(ByQuery), Breakdown(), "start_date=2025-02-10&end_date=2025-02-13", nil,
		"query 2025-02-10..2025-02-13: stored 2025-02-10..2025-02-13")

	f(MoversReport(ByPage), Movers(), "date_range=last_7d", nil,
		"page 2026-06-07..2026-06-13: live 2026-06-07..2026-06-13 25000", "page 2026-05-31..2026-06-06: live 2026-05-31..2026-06-06 25000")

	params := mustParse(t, Summary(), "date_range=last_7d&compare=previous_period")
	for _, report := range []Report{SummaryReport(), BreakdownReport(ByPage), MoversReport(ByQuery)} {
		for _, fetch := range report.Plan(params, Sources{Window: window().ArchiveOnly()}, nil).Fetches {
			if fetch.Upstream != nil || !slices.Equal(fetch.Archive, []DateRange{fetch.Range}) {
				t.Errorf("archive only: %s", fetch.describe())
			}
		}
	}
}

// Two requests have equal keys if and only if they are equivalent.
func TestAppendKey(t *testing.T) {
	key := func(report Report, endpoint Endpoint, query string, conditions ...Condition) string {
		return string(report.AppendKey([]byte("p"), mustParse(t, endpoint, query), conditions))
	}
	queries := func(query string, conditions ...Condition) string {
		return key(BreakdownReport(ByQuery), Breakdown(), query, conditions...)
	}
	for _, same := range []string{"limit=100", "order_by=-clicks", "date_range=last_28d", "order_by=-clicks&limit=100&filters=%5B%5D", "offset=0"} {
		if queries(same) != queries("") {
			t.Errorf("%s has a key of its own", same)
		}
	}
	keys := map[string]string{}
	for name, k := range map[string]string{
		"default": queries(""), "limit": queries("limit=10"), "offset": queries("offset=10"), "page": queries("limit=10&offset=100"),
		"order": queries("order_by=clicks"), "range": queries("date_range=last_7d"),
		"dates":      queries("start_date=2026-05-17&end_date=2026-06-13"),
		"moved back": queries("start_date=2026-05-17&end_date=2026-06-14"), "pages": key(BreakdownReport(ByPage), Breakdown(), ""),
		"filtered":      queries("", Condition{"query", "contains", "a"}),
		"two filters":   queries("", Condition{"query", "contains", "a"}, Condition{"query", "contains", "b"}),
		"another split": queries("", Condition{"query", "contains", "ab"}), "summary": key(SummaryReport(), Summary(), ""),
		"compared":             key(SummaryReport(), Summary(), "compare=previous_period"),
		"with the year before": key(SummaryReport(), Summary(), "compare=previous_year"),
		"timeseries":           key(TimeseriesReport(), Timeseries(), ""),
		"movers":               key(MoversReport(ByQuery), Movers(), ""), "floor": key(MoversReport(ByQuery), Movers(), "min_clicks=1"),
	} {
		if other, there := keys[k]; there {
			t.Errorf("%s and %s have the same key", name, other)
		}
		keys[k] = name
	}
}

func TestMerge(t *testing.T) {
	a := rowsOf(t, []referenceRow{{"shoes", Metrics{30, 100, 0.3, 2}}, {"boots", Metrics{10, 50, 0.2, 4}}, {"none", Metrics{0, 0, 0, 0}}})
	b := rowsOf(t, []referenceRow{{"boots", Metrics{25, 50, 0.5, 8}}, {"caps", Metrics{30, 60, 0.5, 1}}, {"none", Metrics{0, 0, 0, 0}}})
	got := new(Merger).Merge(ByQuery, 0, a, b)
	want := []referenceRow{{"boots", Metrics{35, 100, 0.35, 6}}, {"caps", Metrics{30, 60, 0.5, 1}},
		{"shoes", Metrics{30, 100, 0.3, 2}}, {"none", Metrics{}}}
	if got.Len() != len(want) {
		t.Fatalf("%d rows, want %d", got.Len(), len(want))
	}
	for i, row := range want {
		if !bytes.Equal(got.Key(i), []byte(row.key)) || got.Metrics(i) != row.Metrics {
			t.Errorf("row %d is %s %v, want %v", i, got.Key(i), got.Metrics(i), row)
		}
	}
	if total := got.Total(); total != (Metrics{95, 260, 95.0 / 260, 3.3076923076923075}) {
		t.Errorf("the total is %v", total)
	}
	if new(Merger).Merge(ByQuery, 0, a) != a {
		t.Error("rows that are alone are copied")
	}
	days := new(Merger).Merge(ByDate, 0, rowsOf(t, []referenceRow{{"2026-02-01", Metrics{9, 9, 1, 1}}}),
		rowsOf(t, []referenceRow{{"2026-01-31", Metrics{1, 9, 1, 1}}}))
	if string(days.Key(0)) != "2026-01-31" || days.Len() != 2 {
		t.Errorf("the days begin with %s", days.Key(0))
	}
}
