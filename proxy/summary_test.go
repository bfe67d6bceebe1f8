package proxy

import "testing"

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
