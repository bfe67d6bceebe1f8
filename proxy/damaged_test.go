package proxy

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sara/proxy/openapi"
)

// A torn object concerns the days of its own month only.
func TestSummary200And503WithATornMonth(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	history, keeping := keptIn(t, folder)
	w := newWorld(t, keeping)
	c := w.chronicle(history, "prefix", "https://www.example.org/shop/")
	c.keep(t, "2025-05-28", "2025-06-03")
	objects, err := filepath.Glob(filepath.Join(folder, "history/*/month=2025-05/history.parquet"))
	if err != nil || len(objects) != 1 {
		t.Fatal(objects, err)
	}
	w.must(os.Truncate(objects[0], 100))
	path := w.path("prefix", "/summary")

	r := w.get("pro", path, "start_date", "2025-06-01", "end_date", "2025-06-03").ok(t)
	wantMetrics(t, "totals", r.data()["totals"], c.total(t, "2025-06-01", "2025-06-03", never))
	if strings.Contains(notes(r), "damaged") {
		t.Errorf("the other month's notes are %s", notes(r))
	}
	r = w.get("pro", path, "start_date", "2025-05-30", "end_date", "2025-06-03").ok(t)
	wantMetrics(t, "totals", r.data()["totals"], c.total(t, "2025-06-01", "2025-06-03", never))
	if !strings.Contains(notes(r), "2 days are damaged in the archive and not counted: 2025-05-30 to 2025-05-31.") ||
		strings.Contains(notes(r), "not archived") {
		t.Errorf("the notes are %s", notes(r))
	}
	r = w.get("pro", path, "start_date", "2025-05-28", "end_date", "2025-05-31")
	r.want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable, "the archive of the days from 2025-05-28 to 2025-05-31 is damaged")
	r = w.get("pro", path, "start_date", "2025-05-01", "end_date", "2025-05-02")
	r.want(t, http.StatusServiceUnavailable, openapi.CodeServiceUnavailable, "damaged")
	r = w.get("pro", path, "start_date", "2025-06-04", "end_date", "2025-06-07", "compare", "previous_period")
	r.want(t, http.StatusBadRequest, codeValidation, "there are no figures from 2025-06-04 to 2025-06-07")
}

func TestReady200DegradedWithoutTheObjectStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Health.ArchiveAway = func() string { return "connection refused" } })
	status := w.server.health.status(context.Background())
	if status.State != StateDegraded ||
		status.Reason != "the object store of the archive does not answer, stored history is not served: connection refused" {
		t.Errorf("%+v", status)
	}
}
