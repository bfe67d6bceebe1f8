package proxy

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/upstream/gscsim"
)

// A filtered series that ends in days without figures takes one more call, for the series that shows whether they are published. All other
// filtered requests take one, and so do those that match nothing.
func TestTimeseriesFiltered200NotPublishedDaysAreLeftOut(t *testing.T) {
	t.Parallel()
	const last = "2026-11-18"
	ask := func(w *world, filters string, more ...string) (r response, calls int64) {
		calls = w.calls(func() {
			r = w.get("pro", w.path("main", "/timeseries"), append([]string{"filters", filters}, more...)...).ok(t)
		})
		return r, calls
	}
	week := []string{"date_range", "last_7d"}
	for name, c := range map[string]struct {
		published, filters string
		dates              []string
		calls              int64
		rows               int
		note               []string
	}{
		"late, by device": {last, filtersOf("device", "is", "mobile"), week, 1, 6, []string{lateDay}}, // from a grid
		"late, by query":  {last, filtersOf("query", "contains", "e"), week, 2, 6, []string{lateDay}},
		"late, nothing matches": {last, filtersOf("query", "is", "no such query"), week, 1, 7,
			[]string{"Search Console may not have published 2026-11-15, 2026-11-16, 2026-11-17, 2026-11-18 and 2026-11-19 yet."}},
		"late, an earlier week":   {last, filtersOf("query", "contains", "e"), []string{"start_date", "2026-11-12", "end_date", last}, 1, 7, nil},
		"on time":                 {"2026-11-19", filtersOf("query", "contains", "e"), week, 1, 7, nil},
		"no traffic for six days": {"2026-11-13", filtersOf("query", "contains", "e"), week, 2, 7, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := late(t, c.published)
			r, calls := ask(w, c.filters, c.dates...)
			wantNote(t, r, c.note...)
			if calls != c.calls || len(r.rows()) != c.rows || r.meta()["cache"] != "miss" {
				t.Errorf("%d calls, %d rows, cache %v; want %d calls, %d rows, a miss", calls, len(r.rows()), r.meta()["cache"], c.calls, c.rows)
			}
			if again, calls := ask(w, c.filters, c.dates...); calls != 0 || again.meta()["cache"] != "hit" || len(again.rows()) != c.rows {
				t.Errorf("again: %d calls, meta is %v", calls, again.meta())
			}
		})
	}
}

// A filter that matches nothing shows nothing about the last days. The archive has none that is not published, and a copy of the series shows
// the others.
func TestSummaryFiltered200NothingMatches(t *testing.T) {
	t.Parallel()
	w := late(t, "2026-11-18")
	const both = "Search Console may not have published 2026-11-18 and 2026-11-19 yet."
	query := []string{"date_range", "last_7d", "filters", filtersOf("query", "is", "no such query")}
	first, last := *dateOf(t, "2026-11-01"), *dateOf(t, "2026-11-17")
	w.must(w.store.SaveArchiveState(t.Context(), sqlstore.ArchiveState{PropertyID: w.properties["main"].ID, First: &first, Last: &last}))
	get := func(more ...string) response {
		return w.get("pro", w.path("main", "/summary"), append(query, more...)...).ok(t)
	}
	calls := w.calls(func() {
		r := get()
		wantNote(t, r, both)
		w.wantMaxAge(t, "private, max-age=0", r)
		wantNote(t, get("compare", "previous_period"), both, lateTwice)
	})
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
	w.get("pro", w.path("main", "/summary")).ok(t)
	wantNote(t, get(), lateDay)

	w = late(t, "2026-11-18")
	last = *dateOf(t, "2026-11-13") // earlier than the days that are published for certain
	w.must(w.store.SaveArchiveState(t.Context(), sqlstore.ArchiveState{PropertyID: w.properties["main"].ID, First: &first, Last: &last}))
	wantNote(t, get(), "Search Console may not have published 2026-11-15, 2026-11-16, 2026-11-17, 2026-11-18 and 2026-11-19 yet.")

	w = late(t, "2026-11-19")
	w.get("pro", w.path("main", "/summary")).ok(t)
	r := get()
	wantNote(t, r)
	w.wantMaxAge(t, "private, max-age=600", r)
}

// The rows of a short period may all be of days that are not published: that none match then says nothing.
func TestSummaryFiltered200NothingOfItPublished(t *testing.T) {
	t.Parallel()
	for last, note := range map[string]string{"2026-11-17": lateDay, "2026-11-19": ""} {
		w := late(t, last)
		var r response
		filters := filtersOf("query", "is", "no such query")
		calls := w.calls(func() {
			r = w.get("pro", w.path("main", "/summary"), "start_date", "2026-11-19", "end_date", "2026-11-19", "filters", filters).ok(t)
		})
		if notes(r) != note || calls != 2 {
			t.Errorf("published up to %s: the note %q after %d calls, want %q after 2", last, notes(r), calls, note)
		}
	}
}

// A copy of the day before does not show the anchor's day, which is the one that is mostly late. The grid of devices does.
func TestTimeseriesFiltered200NotPublishedSinceYesterdaysCopy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		filters string
		calls   int64
	}{
		"by device": {filtersOf("device", "is", "mobile"), 1},
		"by query":  {filtersOf("query", "contains", "e"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := late(t, "2026-11-19")
			w.get("pro", w.path("main", "/summary")).ok(t)
			w.setClock("2026-11-22T08:30:00Z") // half an hour into the day after, in Pacific time
			path, week := w.path("main", "/timeseries"), []string{"date_range", "last_7d", "filters", c.filters}
			w.wantCacheStatus(t, "miss", c.calls, path, week...)
			r := w.get("pro", path, week...).ok(t)
			wantNote(t, r, "Search Console has not published 2026-11-20 yet.")
			if len(r.rows()) != 6 {
				t.Errorf("%d rows", len(r.rows()))
			}
		})
	}
}

// The daily grids of devices and countries show which days are published, without a copy of the series. A copy decides where there is one.
func TestEveryPerformanceEndpoint200GridsShowWhatIsNotPublished(t *testing.T) {
	t.Parallel()
	for endpoint, filters := range map[string]string{
		"/devices": "", "/countries": "", "/timeseries": filtersOf("device", "is", "mobile"), "/summary": filtersOf("country", "is", "usa"),
	} {
		w := late(t, "2026-11-18")
		query := []string{"date_range", "last_7d"}
		if filters != "" {
			query = append(query, "filters", filters)
		}
		get := func() response { return w.get("pro", w.path("main", endpoint), query...).ok(t) }
		calls := w.calls(func() {
			wantNote(t, get(), lateDay)
			wantNote(t, get(), lateDay) // from memory
		})
		if calls != 1 {
			t.Errorf("%s: %d calls", endpoint, calls)
		}
		w.must(w.sim.SetPublished(mainSite, "2026-11-19"))
		w.advance(freshAtAnchor)
		w.await(t, "the grid to be replaced", func() bool { return notes(get()) == "" })
	}
}

// A client that only sends filtered requests learns of a day that was published since the copy: nothing else would read the series again.
func TestTimeseriesFiltered200PublishedSinceTheCopy(t *testing.T) {
	t.Parallel()
	w := late(t, "2026-11-18")
	get := func() response {
		return w.get("pro", w.path("main", "/timeseries"), "date_range", "last_7d", "filters", filtersOf("query", "contains", "e")).ok(t)
	}
	wantNote(t, get(), lateDay)
	w.must(w.sim.SetPublished(mainSite, "2026-11-19"))
	if calls := w.calls(func() { wantNote(t, get(), lateDay) }); calls != 0 {
		t.Errorf("%d calls while the copy is fresh", calls)
	}
	w.advance(freshAtAnchor)
	w.await(t, "the series to be replaced", func() bool { return notes(get()) == "" })
	if n := len(get().rows()); n != 7 {
		t.Errorf("%d rows", n)
	}
}

// What a copy of the day before shows as unpublished may be published by now.
func TestTimeseriesFiltered200PublishedSinceYesterdaysCopy(t *testing.T) {
	t.Parallel()
	w := late(t, "2026-11-18")
	w.get("pro", w.path("main", "/summary")).ok(t)
	w.must(w.sim.SetPublished(mainSite, "2026-11-20"))
	w.setClock("2026-11-22T19:00:00Z") // the day after in Pacific time
	path, week := w.path("main", "/timeseries"), []string{"date_range", "last_7d", "filters", filtersOf("query", "contains", "e")}
	w.wantCacheStatus(t, "miss", 2, path, week...)
	r := w.get("pro", path, week...).ok(t)
	wantNote(t, r)
	if len(r.rows()) != 7 {
		t.Errorf("%d rows", len(r.rows()))
	}
}

// answerFiltered answers filtered queries, while all others fail.
func (w *world) answerFiltered(answer http.HandlerFunc) {
	w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.t.Error(err)
		}
		if !bytes.Contains(body, []byte("dimensionFilterGroups")) {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		answer(rw, r)
	})
}

// Where the series cannot be read, the days stay, and a note says what is unknown.
func TestTimeseriesFiltered200MayLackPublishedDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answerFiltered(series(nil, "2026-11-13", "2026-11-17", ""))
	r := w.get("pro", w.path("main", "/timeseries"), "date_range", "last_7d", "filters", filtersOf("query", "contains", "e")).ok(t)
	wantNote(t, r, "Search Console may not have published 2026-11-18 and 2026-11-19 yet.")
	if len(r.rows()) != 7 || r.meta()["source"] != "live" || r.meta()["cache"] != "miss" {
		t.Errorf("%d rows, meta is %v", len(r.rows()), r.meta())
	}
}

// A filtered request does not wait long for a series that hangs. Its call goes on, and the next request has its days.
func TestTimeseriesFiltered200WhileTheSeriesHangs(t *testing.T) {
	t.Parallel()
	w := late(t, "2026-11-18", func(c *Config) { c.Reports.HedgeDelay = 20 * time.Millisecond })
	hanging := make(chan struct{})
	w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte("dimensionFilterGroups")) {
			select {
			case <-hanging:
			case <-r.Context().Done():
			}
		}
		w.sim.ServeHTTP(rw, r)
	})
	path, week := w.path("main", "/timeseries"), []string{"date_range", "last_7d", "filters", filtersOf("query", "contains", "e")}
	made := w.calls(func() {
		r := w.get("pro", path, week...).ok(t)
		wantNote(t, r, "Search Console may not have published 2026-11-19 yet.")
		w.wantMaxAge(t, "private, max-age=0", r)
		close(hanging)
		w.await(t, "the end of the fill", func() bool { return !w.server.Busy() })
		r = w.get("pro", path, week...).ok(t)
		wantNote(t, r, lateDay)
		if len(r.rows()) != 6 || r.meta()["cache"] != "hit" {
			t.Errorf("%d rows, meta is %v", len(r.rows()), r.meta())
		}
	})
	if made != 2 {
		t.Errorf("%d calls", made)
	}
}

// A copy of the day before does not show the anchor's day: tables count it, with a note, and movers compare the other days.
func TestEveryPerformanceEndpoint200YesterdaysCopyLacksTheAnchor(t *testing.T) {
	t.Parallel()
	const unclear = "Search Console may not have published 2026-11-20 yet."
	for _, published := range []string{"2026-11-19", "2026-11-20"} {
		w := late(t, "2026-11-19")
		w.get("pro", w.path("main", "/summary")).ok(t)
		w.setClock("2026-11-22T08:30:00Z") // half an hour into the day after, in Pacific time
		w.must(w.sim.SetPublished(mainSite, published))
		ask := func(endpoint string, more ...string) response {
			return w.get("pro", w.path("main", endpoint), append([]string{"date_range", "last_7d"}, more...)...).ok(t)
		}
		o := w.oracle()
		r := ask("/queries", "limit", "1000")
		wantNote(t, r, unclear)
		wantRows(t, "queries", r.rows(), "key", o.ask(t, mainSite, "query", "2026-11-14", published, 1000))
		w.wantMaxAge(t, "private, max-age=0", r)
		w.wantMaxAge(t, "private, max-age=0", ask("/queries", "limit", "1000")) // from memory
		var want []string
		if published == "2026-11-19" {
			want = []string{"Search Console has not published 2026-11-20 yet."}
		}
		wantNote(t, ask("/countries"), want...)
		moved := ask("/movers/queries")
		wantNote(t, moved, unclear, "1 of 7 days is missing on one side: both periods are compared over the other 6.")
		gainers, losers := naiveMovers(o.ask(t, mainSite, "query", "2026-11-14", "2026-11-19", 25000),
			o.ask(t, mainSite, "query", "2026-11-07", "2026-11-12", 25000), 0, 10)
		wantMovers(t, "gainers", moved.data()["gainers"], gainers)
		wantMovers(t, "losers", moved.data()["losers"], losers)
		calls := w.calls(func() {
			moved = w.get("pro", w.path("main", "/movers/pages"), "start_date", "2026-11-20", "end_date", "2026-11-20").ok(t)
			wantNote(t, moved, unclear)
			wantMovers(t, "gainers of no day", moved.data()["gainers"], nil)
			r := w.get("pro", w.path("main", "/queries"), "start_date", "2026-11-13", "end_date", "2026-11-19").ok(t)
			wantNote(t, r)
			w.wantMaxAge(t, "private, max-age=600", r)
		})
		if calls != 1 {
			t.Errorf("%d calls, want that of the earlier week", calls)
		}
		ask("/timeseries")
		wantNote(t, ask("/queries"), want...)
	}
}

// A comparison of filtered figures leaves out the days that may not be published.
func TestSummaryFiltered200ComparesWhileTheSeriesFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answerFiltered(series(nil, "2026-11-06", "2026-11-17", ""))
	r := w.get("pro", w.path("main", "/summary"), "date_range", "last_7d", "compare", "previous_period",
		"filters", filtersOf("query", "contains", "e")).ok(t)
	wantNote(t, r, "Search Console may not have published 2026-11-18 and 2026-11-19 yet.", lateTwice)
	for _, side := range []string{"totals", "previous"} {
		if clicks := r.data()[side].(map[string]any)["clicks"]; clicks != 50.0 {
			t.Errorf("%s: %v clicks, want those of five days", side, clicks)
		}
	}
}

// A stale copy that is served because no call is left, after one that failed, names the days that may not be published.
func TestTimeseriesFiltered200MayLackPublishedDaysWithoutBudget(t *testing.T) {
	t.Parallel()
	w := late(t, "2026-11-18", limited(func(p *policy.Plan) { p.SearchConsoleCallsPerDay = 2 }))
	for i, endpoint := range []string{"/timeseries", "/timeseries", "/summary"} { // the copy is fresh, is to be replaced, and cannot be
		r := w.get("pro", w.path("main", endpoint), "date_range", "last_7d", "filters", filtersOf("query", "is", "no such query")).ok(t)
		if !strings.HasSuffix(notes(r), "2026-11-18 and 2026-11-19 yet.") {
			t.Errorf("answer %d has the notes %q", i, notes(r))
		}
		w.wantMaxAge(t, "private, max-age=0", r)
		w.await(t, "the end of the fill", func() bool { return !w.server.Busy() })
		w.must(w.sim.SetFaults(gscsim.Faults{Status: 503}))
		w.advance(freshAtAnchor)
	}
}
