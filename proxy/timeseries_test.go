package proxy

import (
	"net/http"
	"testing"
)

func TestTimeseries200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.oracle()
	path := w.path("main", "/timeseries")

	w.run("one row for every day", func(t *testing.T) {
		r := w.get("pro", path).ok(t)
		wantMembers(t, "data", r.data(), "rows")
		wantMembers(t, "row", r.rows()[0], "clicks ctr date impressions position")
		wantRows(t, "days", r.rows(), "date", o.ask(t, "sc-domain:example.com", "date", "2026-10-23", "2026-11-19", 1000))
		w.wantPerformanceMeta(t, r, "main", "2026-10-23", "2026-11-19", "last_28d")
		if m := r.meta(); m["row_count"] != 28.0 || m["limit"] != nil || m["truncated_by"] != nil {
			t.Errorf("meta is %v", m)
		}
	})
	w.run("the whole live window", func(t *testing.T) {
		r := w.get("pro", w.path("prefix", "/timeseries"), "date_range", "last_16m").ok(t)
		wantRows(t, "days", r.rows(), "date", o.ask(t, "https://www.example.org/shop/", "date", "2025-07-20", "2026-11-19", 1000))
		if len(r.rows()) != 488 || r.meta()["row_count"] != 488.0 {
			t.Errorf("%d rows, row_count %v", len(r.rows()), r.meta()["row_count"])
		}
	})
	w.run("days without data are zeros", func(t *testing.T) {
		r := w.get("pro", w.path("empty", "/timeseries"), "date_range", "last_7d").ok(t)
		if len(r.rows()) != 7 {
			t.Fatalf("%d rows", len(r.rows()))
		}
		for _, row := range r.rows() {
			wantMetrics(t, "an empty day", row, figure{})
		}
	})
	w.run("days that the upstream leaves out are zeros", func(t *testing.T) {
		w.answerWith(func(rw http.ResponseWriter, _ *http.Request) {
			mustWrite(rw, `{"rows":[{"keys":["2026-11-15"],"clicks":3,"impressions":9,"ctr":0.3333333333333333,"position":2}]}`)
		})
		defer w.answerWith(nil)
		w.advance(freshAtAnchor)
		r := w.live("pro", path, "date_range", "last_7d").ok(t)
		if len(r.rows()) != 7 {
			t.Fatalf("%d rows", len(r.rows()))
		}
		wantMetrics(t, "the missing day", r.rows()[1], figure{})
		wantMetrics(t, "the day", r.rows()[2], figure{Clicks: 3, Impressions: 9, CTR: 1.0 / 3, Position: 2})
	})
}

func TestTimeseries400(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantRefusedParameters("main", "/timeseries", dateRefusals(), []refusal{
		{"compare=previous_period", codeUnsupported, "compare"}, {"limit=1", codeUnsupported, "limit"},
	})
}

func TestTimeseries503(t *testing.T) {
	t.Parallel()
	newWorld(t).wantUnavailable("/timeseries")
}
