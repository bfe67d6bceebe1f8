package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sara/translate"
)

// One grid answers the devices of every range and series of one device, and another one the countries of every late range.
func TestDevicesAndCountries200OneGrid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.oracle()
	const site = "https://www.example.org/shop/"
	table := func(endpoint, by, start, end string, calls int64, status string) {
		t.Helper()
		r := w.wantCacheStatus(t, status, calls, w.path("prefix", endpoint), "start_date", start, "end_date", end)
		wantRows(t, endpoint, r.rows(), "key", o.ask(t, site, by, start, end, 25000))
	}
	table("/devices", "device", "2026-11-13", "2026-11-19", 1, "miss")
	table("/devices", "device", "2025-11-01", "2026-10-31", 0, "hit")
	table("/countries", "country", "2026-10-23", "2026-11-19", 1, "miss")
	table("/countries", "country", "2026-08-16", "2026-11-18", 0, "hit")
	table("/countries", "country", "2026-08-15", "2026-11-18", 1, "miss") // a day too early
	series := func(filters string, c condition, calls int64, status string) {
		t.Helper()
		r := w.wantCacheStatus(t, status, calls, w.path("prefix", "/timeseries"), "start_date", "2026-10-23", "end_date", "2026-11-19", "filters", filters)
		wantRows(t, filters, r.rows(), "date", o.ask(t, site, "date", "2026-10-23", "2026-11-19", 25000, c))
	}
	series(filtersOf("device", "is", "mobile"), condition{"device", "equals", "MOBILE"}, 0, "hit")
	series(filtersOf("country", "is_not", "usa"), condition{"country", "notEquals", "usa"}, 0, "hit")
	series(filtersOf("country", "contains", "u"), condition{"country", "contains", "u"}, 1, "miss")
}

// upstreamRequests answers with a function of the query, and records the row limits.
type upstreamRequests struct {
	mu     sync.Mutex // guards limits
	limits []int
	rows   func(dimensions []string, limit int) string
}

// ServeHTTP implements http.Handler.
func (u *upstreamRequests) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var q struct {
		Dimensions []string
		RowLimit   int
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	u.mu.Lock()
	u.limits = append(u.limits, q.RowLimit)
	u.mu.Unlock()
	mustWrite(rw, u.rows(q.Dimensions, q.RowLimit))
}

func (u *upstreamRequests) wantLimits(t *testing.T, want ...int) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if fmt.Sprint(u.limits) != fmt.Sprint(want) {
		t.Errorf("the upstream was asked for %v rows, want %v", u.limits, want)
	}
	u.limits = nil
}

// A grid that may lack rows answers nothing: the range itself is queried.
func TestCountries200FullGrid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := &upstreamRequests{rows: func(dimensions []string, limit int) string {
		if len(dimensions) == 1 {
			return `{"rows":[{"keys":["usa"],"clicks":7,"impressions":70,"ctr":0.1,"position":2}]}`
		}
		var rows []string
		for i := range limit {
			day := *dateOf(t, "2026-08-16") + translate.Date(i/261)
			rows = append(rows, fmt.Sprintf(`{"keys":["%s","k%d"],"clicks":1,"impressions":1,"ctr":1,"position":1}`, day, i%261))
		}
		return `{"rows":[` + strings.Join(rows, ",") + `]}`
	}}
	w.answerWith(u.ServeHTTP)
	r := w.get("pro", w.path("main", "/countries")).ok(t)
	wantRows(t, "/countries", r.rows(), "key", []figure{{Keys: []string{"usa"}, Clicks: 7, Impressions: 70, CTR: 0.1, Position: 2}})
	u.wantLimits(t, translate.WideSample, translate.NarrowSample)
}

// The first sample of a table tells whether it is small. One of a small table answers every order, and the movers.
func TestQueries200SmallTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	size := 1500
	u := &upstreamRequests{rows: func(_ []string, limit int) string { return upstreamRows(min(size, limit)) }}
	w.answerWith(u.ServeHTTP)
	small := w.path("main", "/queries")
	r := w.get("pro", small, "limit", "1000").ok(t)
	if r.meta()["truncated_by"] != "clicks" || r.meta()["has_more"] != true || len(r.rows()) != 1000 {
		t.Errorf("%d rows, meta %v", len(r.rows()), r.meta())
	}
	u.wantLimits(t, translate.EnlargedSample)
	r = w.get("pro", small, "order_by", "clicks").ok(t)
	if first := fmt.Sprint(r.rows()[0]); r.meta()["truncated_by"] != nil || !strings.Contains(first, "clicks:1 ") {
		t.Errorf("upwards the first row is %s, meta %v", first, r.meta())
	}
	u.wantLimits(t)
	w.get("pro", w.path("main", "/movers/queries")).ok(t)
	u.wantLimits(t, translate.WideSample) // the period before
	w.get("pro", small, "date_range", "last_90d").ok(t)
	u.wantLimits(t, translate.EnlargedSample)

	size = 30_000
	large := w.path("prefix", "/queries")
	w.get("pro", large, "date_range", "last_90d").ok(t)
	w.get("pro", large, "date_range", "last_90d", "order_by", "key").ok(t)
	w.get("pro", large, "date_range", "last_3m").ok(t)
	w.get("pro", large, "date_range", "last_12m").ok(t)
	u.wantLimits(t, translate.EnlargedSample, translate.WideSample, translate.NarrowSample, translate.NarrowSample)
	w.get("pro", large, "date_range", "last_28d").ok(t) // so short that it may have few rows
	w.get("pro", large, "date_range", "last_7d", "filters", filtersOf("device", "is", "mobile")).ok(t)
	u.wantLimits(t, translate.EnlargedSample, translate.NarrowSample)
}
