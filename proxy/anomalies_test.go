package proxy

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"sara/policy"
	"sara/translate"
)

// builtInAnomalies is the default of a server; other worlds know of no anomaly, so that notes of other things are alone.
func builtInAnomalies(c *Config) { c.Reports.Anomalies = nil }

func TestAnomalies200(t *testing.T) {
	t.Parallel()
	w := newWorld(t, builtInAnomalies)
	ids := func(key string, query ...string) (ids []string) {
		r := w.get(key, "/v1/anomalies", query...).ok(t)
		for _, row := range r.rows() {
			ids = append(ids, row.(map[string]any)["id"].(string))
		}
		if r.meta()["row_count"] != float64(len(ids)) {
			t.Errorf("%d rows with row_count %v", len(ids), r.meta()["row_count"])
		}
		return ids
	}
	all := ids("pro")
	if len(all) != len(translate.KnownAnomalies()) {
		t.Errorf("the anomalies %v", all)
	}
	for _, key := range []string{"config_only", "properties_only", "performance_only", "indexing_only"} {
		if got := ids(key); !slices.Equal(got, all) {
			t.Errorf("%s gets %v", key, got)
		}
	}
	if got := ids("pro", "start_date", "2025-06-18", "end_date", "2025-09-09"); !slices.Equal(got, []string{"gsc-impressions-logging-2025"}) {
		t.Errorf("the summer of 2025 has %v", got)
	}
	if got := ids("pro", "end_date", "2025-05-12"); len(got) != 0 {
		t.Errorf("before all of them there are %v", got)
	}
}

func TestAnomalies400(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ name, value, code string }{
		{"start_date", "yesterday", codeValidation}, {"end_date", "2026-02-30", codeValidation}, {"date_range", "last_7d", codeUnsupported},
	} {
		w.get("pro", "/v1/anomalies", c.name, c.value).want(t, http.StatusBadRequest, c.code, c.name)
	}
	w.get("pro", "/v1/anomalies", "start_date", "2026-02-02", "end_date", "2026-02-01").want(t, http.StatusBadRequest, codeValidation, "start_date")
	w.get("", "/v1/anomalies").want(t, http.StatusUnauthorized, policy.CodeInvalidKey)
}

// Every performance answer whose days, or the days of the period before, touch an anomaly has its note, whether the answer shows
// that period or not. No other answer has one.
func TestPerformance200AnomalyNotes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, builtInAnomalies)
	notes := func(r response) (found []string) {
		for _, note := range r.meta()["notes"].([]any) {
			if text := note.(string); strings.HasPrefix(text, "gsc-") || strings.HasPrefix(text, "google-") {
				found = append(found, text)
			}
		}
		return found
	}
	known := translate.KnownAnomalies()
	want := func(index ...int) (list []string) {
		for _, i := range index {
			a := known[i]
			list = append(list, a.ID+": "+a.Effect+" ("+a.Start.String()+" to "+a.End.String()+")")
		}
		return list
	}
	for _, endpoint := range []string{"/summary", "/timeseries", "/queries", "/pages", "/countries", "/devices", "/movers/queries", "/movers/pages"} {
		for _, c := range []struct {
			start, end string
			want       []string
		}{
			{"2026-09-01", "2026-09-28", nil},
			{"2026-05-01", "2026-05-04", want(0, 4)}, // by the period before
			{"2026-05-07", "2026-05-08", want(5)},
			{"2025-09-01", "2025-09-14", want(0, 2)},
			{"2025-12-01", "2025-12-31", want(0)},
		} {
			path := w.path("main", endpoint)
			r := w.get("pro", path, "start_date", c.start, "end_date", c.end).ok(t)
			if got := notes(r); !slices.Equal(got, c.want) {
				t.Errorf("%s from %s to %s has the notes %q, want %q", endpoint, c.start, c.end, got, c.want)
			}
		}
	}
	if got := notes(w.get("pro", w.path("main", "/queries"),
		"date_range", "last_12m", "filters", filtersOf("device", "is", "mobile")).ok(t)); len(got) != len(known) {
		t.Errorf("a filtered year has the notes %q", got)
	}
}

// The setting replaces the built-in list, in the notes too.
func TestAnomalies200Replaced(t *testing.T) {
	t.Parallel()
	list, err := translate.ReadAnomalies(strings.NewReader(
		"- {id: own, start_date: 2026-11-01, kind: step, metrics: [clicks], effect: Other., source_url: https://example.com}"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) { c.Reports.Anomalies = list })
	rows := w.get("pro", "/v1/anomalies").ok(t).rows()
	if len(rows) != 1 || rows[0].(map[string]any)["end_date"] != nil || rows[0].(map[string]any)["kind"] != "step" {
		t.Errorf("the anomalies %v", rows)
	}
	if notes := w.get("pro", w.path("main", "/summary")).ok(t).meta()["notes"].([]any); !slices.Contains(notes, any("own: Other. (since 2026-11-01)")) {
		t.Errorf("the notes %v", notes)
	}
	other := w.replica(func(c *Config) { c.Reports.Anomalies = translate.Anomalies{} })
	if r := other.get("pro", "/v1/anomalies").ok(t); len(r.rows()) != 0 {
		t.Errorf("an empty list answers %s", r.body)
	}
}
