package proxy

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Tables, movers and the data window know what a copy of the series tells, of any age up to a day, and never ask for it. Filtered requests do
// not if it has the days.
func TestEveryPerformanceEndpoint200KnowsAsMuchAsACopy(t *testing.T) {
	t.Parallel()
	w := late(t, "2026-11-18")
	filters := filtersOf("device", "is", "mobile")
	ask := func(endpoint string, more ...string) response {
		return w.get("pro", w.path("main", endpoint), append([]string{"date_range", "last_7d"}, more...)...).ok(t)
	}
	window := func() string {
		d := w.get("pro", w.path("main", "")).ok(t).data()["data_window"].(map[string]any)
		return fmt.Sprint(d["earliest_data_date"], " ", d["latest_data_date"])
	}
	if got := window(); got != "2025-07-20 2026-11-19" {
		t.Errorf("without a copy data_window is %s", got)
	}
	wantNote(t, ask("/queries"))
	wantNote(t, ask("/queries"))
	calls := w.calls(func() { ask("/timeseries") })
	calls += w.calls(func() { wantNote(t, ask("/queries"), lateDay) })
	w.advance(freshAtAnchor + time.Minute)
	for _, endpoint := range []string{"/queries", "/pages", "/countries", "/devices"} {
		wantNote(t, ask(endpoint), lateDay)
	}
	wantNote(t, ask("/summary", "filters", filters), lateDay)
	r := ask("/timeseries", "filters", filters)
	wantNote(t, r, lateDay)
	if r.meta()["row_count"] != 6.0 {
		t.Errorf("row_count is %v", r.meta()["row_count"])
	}
	moved := ask("/movers/queries")
	wantNote(t, moved, lateDay, "1 of 7 days is missing on one side: both periods are compared over the other 6.")
	o := w.oracle()
	gainers, losers := naiveMovers(o.ask(t, mainSite, "query", "2026-11-13", "2026-11-18", 25000),
		o.ask(t, mainSite, "query", "2026-11-06", "2026-11-11", 25000), 0, 10)
	wantMovers(t, "gainers", moved.data()["gainers"], gainers)
	wantMovers(t, "losers", moved.data()["losers"], losers)
	if calls += w.calls(func() { // the day after in Pacific time, with the copy of the day before
		w.setClock("2026-11-22T19:00:00Z")
		if got := window(); got != "2025-07-21 2026-11-18" {
			t.Errorf("data_window is %s", got)
		}
	}); calls != 1 {
		t.Errorf("%d calls, want only that of the timeseries", calls)
	}
	ask("/timeseries", "start_date", "2025-07-21", "end_date", "2025-07-21")
	w.get("pro", w.path("main", "/timeseries"), "start_date", "2025-07-20", "end_date", "2025-07-20").want(t, http.StatusBadRequest, codeTooOld)
}

// A series is as old as its call: one whose refill outlasts a day, as on a machine that sleeps meanwhile, does not make movers doubt a day.
func TestMovers200RefillThatOutlastsADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	get := func(endpoint string) response {
		return w.get("pro", w.path("main", endpoint), "date_range", "last_7d").ok(t)
	}
	get("/timeseries")
	w.advance(7 * time.Hour)
	entered, leave := make(chan struct{}), make(chan struct{})
	w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		close(entered)
		<-leave
		w.sim.ServeHTTP(rw, r)
	})
	get("/timeseries")
	<-entered
	w.answerWith(nil)
	w.advance(25 * time.Hour)
	close(leave)
	w.await(t, "the end of the refill", func() bool { return !w.server.Busy() })
	r := get("/movers/pages")
	wantNote(t, r)
	o := w.oracle()
	gainers, losers := naiveMovers(o.ask(t, mainSite, "page", "2026-11-14", "2026-11-20", 25000),
		o.ask(t, mainSite, "page", "2026-11-07", "2026-11-13", 25000), 0, 10)
	wantMovers(t, "gainers", r.data()["gainers"], gainers)
	wantMovers(t, "losers", r.data()["losers"], losers)
}

// A day with figures that has left the live window since the copy was made is not available, even if it was the last one.
func TestProperty200FiguresOnlyBeforeTheLiveWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answerWith(series(nil, "2025-07-20", "2025-07-20", ""))
	w.get("pro", w.path("main", "/timeseries")).ok(t)
	w.setClock("2026-11-22T19:00:00Z") // the day after in Pacific time
	if d := w.get("pro", w.path("main", "")).ok(t).data()["data_window"].(map[string]any); d["earliest_data_date"] != "2025-07-21" ||
		d["latest_data_date"] != "2026-11-20" {
		t.Errorf("data_window is %v", d)
	}
}

// An answer in memory is built again once a copy of the series tells something else.
func TestQueries200PublishedInTheMeantime(t *testing.T) {
	t.Parallel()
	w := late(t, "2026-11-18")
	get := func(endpoint string) response { return w.get("pro", w.path("main", endpoint)).ok(t) }
	get("/timeseries")
	wantNote(t, get("/queries"), lateDay)
	w.must(w.sim.SetPublished(mainSite, "2026-11-19"))
	wantNote(t, get("/queries"), lateDay)
	w.advance(25 * time.Hour / 2)
	w.setClock("2026-11-22T07:00:00Z") // the same anchor
	get("/timeseries")
	w.await(t, "the series to be replaced", func() bool { return notes(get("/timeseries")) == "" })
	wantNote(t, get("/queries"))
}

// Rows that are newer than the copy of the series have no figures of days that the notes call unpublished. Without a call, neither
// does a range of nothing else.
func TestEveryPerformanceEndpoint200PublishedAfterTheCopy(t *testing.T) {
	t.Parallel()
	w := late(t, "2026-11-18")
	w.get("pro", w.path("main", "/timeseries")).ok(t)
	w.must(w.sim.SetPublished(mainSite, "2026-11-19"))
	o := w.oracle()
	r := w.get("pro", w.path("main", "/devices"), "date_range", "last_7d").ok(t)
	wantRows(t, "devices", r.rows(), "key", o.ask(t, mainSite, "device", "2026-11-13", "2026-11-18", 10))
	wantNote(t, r, lateDay)
	r = w.get("pro", w.path("main", "/timeseries"), "date_range", "last_7d", "filters", filtersOf("device", "is", "mobile")).ok(t)
	wantNote(t, r, lateDay)
	if n := len(r.rows()); n != 6 {
		t.Errorf("%d filtered days", n)
	}
	days := []string{"start_date", "2026-11-19", "end_date", "2026-11-19"}
	w.wantCacheStatus(t, "hit", 0, w.path("main", "/queries"), days...)
	r = w.get("pro", w.path("main", "/queries"), days...).ok(t)
	wantNote(t, r, lateDay)
	if len(r.rows()) != 0 || r.meta()["source"] != "live" {
		t.Errorf("rows %v, meta %v", r.rows(), r.meta())
	}
}

// Rows of a table that include days which a copy of the series shows as unpublished save a call, but only while they are fresh and older
// than the copy: newer ones may have figures of those days.
func TestQueries200RowsWithUnpublishedDays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		elapse, later time.Duration // from the rows to the copy, and from there to the request
		status        string
		calls         int64
	}{
		"fresh":               {0, time.Minute, "hit", 0},
		"not fresh":           {0, freshAtAnchor, "miss", 1},
		"newer than the copy": {-time.Second, time.Second, "miss", 1}, // by the clocks of two replicas
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			path, week := w.path("main", "/queries"), []string{"date_range", "last_7d"}
			wantNote(t, w.get("pro", path, week...).ok(t))
			w.must(w.sim.SetPublished(mainSite, "2026-11-18"))
			w.advance(test.elapse)
			w.get("pro", w.path("main", "/timeseries")).ok(t)
			w.advance(test.later)
			w.wantCacheStatus(t, test.status, test.calls, path, week...)
			wantNote(t, w.get("pro", path, week...).ok(t), lateDay)
		})
	}
}

// Rows that are older than the copy of the series may lack days that it shows: figures of each day show that they do not.
func TestEveryPerformanceEndpoint200RowsOlderThanTheCopy(t *testing.T) {
	t.Parallel()
	const mayLack = "These figures were read at 2026-11-21T20:00:00Z: " +
		"days up to 2026-11-19 that Search Console has published since, if any, are missing in them."
	for _, last := range []string{"2026-11-18", "2026-11-19"} { // when the rows are read
		w := late(t, last)
		filters := filtersOf("query", "contains", "e")
		ask := func(endpoint string, more ...string) response {
			return w.get("pro", w.path("main", endpoint), append([]string{"date_range", "last_7d"}, more...)...).ok(t)
		}
		read := func() (answers map[string]response) {
			answers = map[string]response{"queries": ask("/queries"), "movers": ask("/movers/pages"), "devices": ask("/devices")}
			if last == "2026-11-19" { // without figures of the last day, it reads the series itself
				answers["filtered"] = ask("/summary", "filters", filters)
			}
			return answers
		}
		read()
		w.must(w.sim.SetPublished(mainSite, "2026-11-19"))
		w.advance(5 * time.Minute)
		wantNote(t, ask("/timeseries"))
		calls := w.calls(func() {
			for name, r := range read() {
				if r.meta()["cache"] != "hit" {
					t.Errorf("%s: meta is %v", name, r.meta())
				}
				if last == "2026-11-19" && (name == "devices" || name == "filtered") {
					wantNote(t, r)
					continue
				}
				wantNote(t, r, mayLack)
			}
			wantNote(t, w.get("pro", w.path("main", "/queries"), "start_date", "2026-11-01", "end_date", "2026-11-18").ok(t))
		})
		if calls != 1 {
			t.Errorf("%d calls, want that of the range before", calls)
		}
		w.advance(freshAtAnchor)
		w.await(t, "the rows to be replaced", func() bool {
			for _, r := range read() {
				if notes(r) != "" {
					return false
				}
			}
			return true
		})
		w.advance(5 * time.Minute)
		ask("/timeseries") // is replaced, but shows no other day
		w.await(t, "the end of the fill", func() bool { return !w.server.Busy() })
		wantNote(t, ask("/queries", "limit", "2"))
	}
}
