package proxy

import (
	"net/http"
	"strings"
	"testing"

	"sara/proxy/openapi"
)

func TestSummary200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.oracle()
	path := w.path("main", "/summary")
	const site = "sc-domain:example.com"

	w.run("totals of the last 28 days by default", func(t *testing.T) {
		r := w.get("pro", path).ok(t)
		wantMembers(t, "data", r.data(), "totals")
		wantMembers(t, "totals", r.data()["totals"], metricsMembers)
		wantMetrics(t, "totals", r.data()["totals"], o.total(t, site, "2026-10-23", "2026-11-19"))
		w.wantPerformanceMeta(t, r, "main", "2026-10-23", "2026-11-19", "last_28d")
		for _, name := range []string{"row_count", "limit", "truncated_by"} {
			if value, there := r.meta()[name]; !there || value != nil {
				t.Errorf("meta.%s is %v", name, value)
			}
		}
		if notes(r) != "" {
			t.Errorf("notes %q", notes(r))
		}
	})

	w.run("compare=none is the default", func(t *testing.T) {
		wantMembers(t, "data", w.get("pro", path, "compare", "none").ok(t).data(), "totals")
	})

	w.run("compare adds the window of equal length right before", func(t *testing.T) {
		before := w.sim.Calls().SearchAnalytics
		r := w.get("pro", path, "compare", "previous_period").ok(t)
		previous := r.data()["previous"].(map[string]any)
		wantMembers(t, "data", r.data(), "previous totals")
		wantMembers(t, "previous", previous, "clicks ctr end_date impressions position start_date")
		if previous["start_date"] != "2026-09-25" || previous["end_date"] != "2026-10-22" {
			t.Errorf("previous is %v", previous)
		}
		wantMetrics(t, "totals", r.data()["totals"], o.total(t, site, "2026-10-23", "2026-11-19"))
		wantMetrics(t, "previous", previous, o.total(t, site, "2026-09-25", "2026-10-22"))
		if calls := w.sim.Calls().SearchAnalytics - before; calls > 1 {
			t.Errorf("comparing took %d upstream calls", calls)
		}
	})

	for preset, days := range map[string][2]string{
		"last_7d":        {"2026-11-13", "2026-11-19"},
		"last_28d":       {"2026-10-23", "2026-11-19"},
		"last_30d":       {"2026-10-21", "2026-11-19"},
		"last_90d":       {"2026-08-22", "2026-11-19"},
		"last_3m":        {"2026-08-20", "2026-11-19"},
		"last_6m":        {"2026-05-20", "2026-11-19"},
		"last_12m":       {"2025-11-20", "2026-11-19"},
		"last_16m":       {"2025-07-20", "2026-11-19"},
		"month_to_date":  {"2026-11-01", "2026-11-19"},
		"previous_month": {"2026-10-01", "2026-10-31"},
		"year_to_date":   {"2026-01-01", "2026-11-19"},
	} {
		w.run(preset, func(t *testing.T) {
			r := w.get("pro", w.path("prefix", "/summary"), "date_range", preset).ok(t)
			w.wantPerformanceMeta(t, r, "prefix", days[0], days[1], preset)
			wantMetrics(t, preset, r.data()["totals"], o.total(t, "https://www.example.org/shop/", days[0], days[1]))
		})
	}

	w.run("exact dates", func(t *testing.T) {
		r := w.get("pro", path, "start_date", "2026-09-03", "end_date", "2026-09-03").ok(t)
		w.wantPerformanceMeta(t, r, "main", "2026-09-03", "2026-09-03", "custom")
		wantMetrics(t, "one day", r.data()["totals"], o.total(t, site, "2026-09-03", "2026-09-03"))
	})

	w.run("an end after the anchor is moved back with a note", func(t *testing.T) {
		r := w.get("pro", path, "start_date", "2026-11-10", "end_date", "2026-11-20").ok(t)
		w.wantPerformanceMeta(t, r, "main", "2026-11-10", "2026-11-19", "custom")
		wantText(t, "notes", notes(r), "2026-11-20", "2026-11-19")
	})

	w.run("exact dates win over a preset with a note", func(t *testing.T) {
		r := w.get("pro", path, "start_date", "2026-11-10", "end_date", "2026-11-12", "date_range", "last_7d").ok(t)
		w.wantPerformanceMeta(t, r, "main", "2026-11-10", "2026-11-12", "custom")
		wantText(t, "notes", notes(r), "last_7d")
	})

	w.run("the live window includes its first day", func(t *testing.T) {
		r := w.get("pro", path, "start_date", "2025-07-20", "end_date", "2025-07-20").ok(t)
		wantMetrics(t, "first day", r.data()["totals"], o.total(t, site, "2025-07-20", "2025-07-20"))
	})

	w.run("a property without data has zeros", func(t *testing.T) {
		r := w.get("pro", w.path("empty", "/summary"), "compare", "previous_period").ok(t)
		wantMetrics(t, "totals", r.data()["totals"], figure{})
		wantMetrics(t, "previous", r.data()["previous"], figure{})
	})
}

// The ranges follow the day in America/Los_Angeles, not in UTC.
func TestSummary200FollowsThePacificDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, step := range []struct {
		instant, anchor string
	}{
		{"2026-11-22T07:59:59Z", "2026-11-19"}, // still the 21st in Pacific time
		{"2026-11-22T08:00:00Z", "2026-11-20"},
		{"2027-03-01T07:59:59Z", "2027-02-26"},
		{"2027-07-01T07:00:00Z", "2027-06-29"}, // summer time
	} {
		w.setClock(step.instant)
		r := w.get("pro", w.path("prefix", "/summary"), "date_range", "last_7d").ok(t)
		if got := r.meta()["date_range"].(map[string]any)["end_date"]; got != step.anchor {
			t.Errorf("at %s the anchor is %v, not %s", step.instant, got, step.anchor)
		}
	}
}

func TestSummary400(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantRefusedParameters("main", "/summary", sharedRefusals(), []refusal{
		{"compare=last_year", codeValidation, "compare"},
		{"compare=Previous_Period", codeValidation, "compare"},
		{"compare=", codeValidation, "compare"},
		{"compare=none&compare=none", codeValidation, "compare"},
		{"limit=10", codeUnsupported, "limit"},
		{"order_by=-clicks", codeUnsupported, "order_by"},
		// The previous period would begin before the plan's history.
		{"start_date=2024-11-20&end_date=2026-11-19&compare=previous_period", codeTooOld, "2023-11-20"},
	})
}

func TestSummary503(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantUnavailable("/summary")
}

// The same dates a year before come from where they are: the archive, both, or Search Console. A February 29 that only one year has
// counts, and is named.
func TestSummary200ComparedWithTheYearBefore(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	c := w.chronicle(history, "prefix", "https://www.example.org/shop/")
	for _, span := range [][2]string{{"2023-02-20", "2023-03-05"}, {"2024-02-20", "2024-03-05"}, {"2025-02-20", "2025-03-05"},
		{"2025-07-01", "2025-07-19"}} {
		c.keep(t, span[0], span[1])
	}
	path := w.path("prefix", "/summary")
	for _, test := range []struct{ start, end, before, beforeEnd, source, note string }{
		{"2026-10-01", "2026-10-28", "2025-10-01", "2025-10-28", "live", ""},
		{"2026-07-15", "2026-07-25", "2025-07-15", "2025-07-25", "hybrid", "come from the archive"},
		{"2026-07-02", "2026-07-08", "2025-07-02", "2025-07-08", "hybrid", "come from the archive"},
		{"2025-02-22", "2025-03-02", "2024-02-22", "2024-03-02", "stored", "The period has 9 days and the same period of the year before 10"},
		{"2025-02-22", "2025-02-28", "2024-02-22", "2024-02-28", "stored", ""},
		{"2024-02-22", "2024-03-02", "2023-02-22", "2023-03-02", "stored", "The period has 10 days and the same period of the year before 9"},
		{"2024-02-29", "2024-02-29", "2023-02-28", "2023-02-28", "stored", ""},
		{"2024-02-28", "2024-02-29", "2023-02-28", "2023-02-28", "stored", "The period has 2 days and the same period of the year before 1"},
	} {
		w.run(test.start+" to "+test.end, func(t *testing.T) {
			r := w.get("agency", path, "start_date", test.start, "end_date", test.end, "compare", "previous_year").ok(t)
			previous := r.data()["previous"].(map[string]any)
			if previous["start_date"] != test.before || previous["end_date"] != test.beforeEnd {
				t.Errorf("previous is %v, want %s to %s", previous, test.before, test.beforeEnd)
			}
			wantMetrics(t, "totals", r.data()["totals"], c.total(t, test.start, test.end, liveFrom))
			wantMetrics(t, "previous", previous, c.total(t, test.before, test.beforeEnd, liveFrom))
			wantSource(t, r, test.source)
			wantText(t, "notes", notes(r), test.note)
			if named := strings.Contains(notes(r), "February 29"); named != strings.HasPrefix(test.note, "The period") {
				t.Errorf("notes %q", notes(r))
			}
			if strings.Contains(notes(r), "not archived") {
				t.Errorf("days between the two periods are named: %q", notes(r))
			}
		})
	}

	w.run("like with like", func(t *testing.T) { // 2025-03-06 and 07 are not archived
		r := w.get("pro", path, "start_date", "2026-03-01", "end_date", "2026-03-07", "compare", "previous_year").ok(t)
		wantMetrics(t, "totals", r.data()["totals"], c.total(t, "2026-03-01", "2026-03-05", liveFrom))
		wantMetrics(t, "previous", r.data()["previous"], c.total(t, "2025-03-01", "2025-03-05", liveFrom))
		wantText(t, "notes", notes(r), "2 days are not archived and not counted: 2025-03-06 to 2025-03-07.",
			"2 of 7 days are missing on one side: both periods are compared over the other 5.")
	})
	w.run("filtered, in one call", func(t *testing.T) {
		before := w.sim.Calls().SearchAnalytics
		filters := filtersOf("query", "contains", "a")
		r := w.get("pro", path, "date_range", "last_7d", "compare", "previous_year", "filters", filters).ok(t)
		o := w.oracle()
		only := condition{"query", "contains", "a"}
		wantMetrics(t, "totals", r.data()["totals"], o.total(t, c.site, "2026-11-13", "2026-11-19", only))
		wantMetrics(t, "previous", r.data()["previous"], o.total(t, c.site, "2025-11-13", "2025-11-19", only))
		if calls := w.sim.Calls().SearchAnalytics - before; calls != 1 {
			t.Errorf("it took %d calls", calls)
		}
	})
	w.run("what cannot be had", func(t *testing.T) {
		days := func(start, end string) []string {
			return []string{"start_date", start, "end_date", end, "compare", "previous_year"}
		}
		w.get("pro", path, days("2024-11-19", "2024-11-25")...).want(t, http.StatusBadRequest, codeTooOld,
			"with the same period of the year before", "2023-11-20")
		w.get("pro", path, days("2026-05-01", "2026-05-07")...).want(t, http.StatusBadRequest, codeValidation,
			"there are no figures from 2025-05-01 to 2025-05-07")
		w.get("pro", path, append(days("2026-07-02", "2026-07-08"), "filters", filtersOf("query", "contains", "a"))...).
			want(t, http.StatusServiceUnavailable, openapi.CodeFilteredUnavailable)
		w.get("pro", path, "compare", "previous_years").want(t, http.StatusBadRequest, codeValidation, "previous_year")
	})
}
