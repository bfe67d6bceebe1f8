package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sara/archive"
	"sara/archive/bucket"
	"sara/policy"
	"sara/proxy/cpubound"
	"sara/proxy/openapi"
	"sara/proxy/upstream"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// Stale-if-error: when the upstream fails, unfiltered requests get a stale copy with the reason, filtered ones an error.
func TestEveryPerformanceEndpoint200StaleReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, endpoint := range performanceEndpoints() {
		w.get("pro", w.path("main", endpoint)).ok(t)
	}
	filters := filtersOf("device", "is", "mobile")
	w.get("pro", w.path("main", "/queries"), "filters", filters).ok(t)
	called := map[bool]bool{}
	for name, fault := range map[string]gscsim.Faults{"503": {Status: 503}, "404": {Status: 404}, "forbidden": {Reason: "forbidden"},
		"quotaExceeded": {Reason: "quotaExceeded"}, "accessNotConfigured": {Reason: "accessNotConfigured"}, "revoked": {RevokeTokens: true}} {
		w.run(name, func(t *testing.T) {
			w.advance(time.Hour) // cooldowns and cached refusals expire
			w.faults(fault)
			for _, endpoint := range performanceEndpoints() {
				called[w.wantStaleCopy(t, endpoint, "2026-11-21T20:00:00Z")] = true
			}
			status, code := http.StatusServiceUnavailable, openapi.CodeFilteredUnavailable
			if name == "quotaExceeded" {
				status, code = http.StatusTooManyRequests, policy.CodeUpstreamQuota
			}
			w.live("pro", w.path("main", "/queries"), "filters", filters).want(t, status, code)
		})
	}
	w.faults(gscsim.Faults{})
	w.advance(time.Hour)
	if r := w.live("pro", w.path("main", "/summary")).ok(t); r.meta()["source"] != "live" || r.meta()["stale_reason"] != nil {
		t.Errorf("afterwards meta is %v", r.meta())
	}
	if !called[true] || !called[false] {
		t.Errorf("calls: %v, want some requests that made one, and some that did not, during cooldowns", called)
	}
}

// wantStaleCopy requests an endpoint with no-cache, and checks that a copy answers. It reports whether the request made a call, which is what
// the cache status bypass means.
func (w *world) wantStaleCopy(t *testing.T, endpoint, filled string) (called bool) {
	t.Helper()
	var r response
	called = w.calls(func() { r = w.live("pro", w.path("main", endpoint)).ok(t) }) > 0
	status := "hit"
	if called {
		status = "bypass"
	}
	reason, _ := r.meta()["stale_reason"].(string)
	if reason == "" || r.meta()["source"] != "stored" || r.meta()["cache"] != status || r.header.Get("X-Cache") != status ||
		!strings.Contains(notes(r), "a copy from "+filled) {
		t.Errorf("%s: meta is %v, X-Cache is %s; want %s, after a call: %t", endpoint, r.meta(), r.header.Get("X-Cache"), status, called)
	}
	w.wantMaxAge(t, "private, max-age=0", r)
	return called
}

// A stale copy is served without a stale_reason while it is refreshed, and with one after the refresh has failed.
func TestSummary200StaleAfterAFailedRefill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/summary")
	w.wantCacheStatus(t, "miss", 1, path)
	w.faults(gscsim.Faults{Status: 503})
	w.advance(freshAtAnchor)
	w.get("pro", path).ok(t)
	w.await(t, "the reason", func() bool { return w.get("pro", path).ok(t).meta()["stale_reason"] != nil })
	w.faults(gscsim.Faults{})
	w.await(t, "a live answer", func() bool {
		r := w.get("pro", path).ok(t)
		return r.meta()["stale_reason"] == nil && r.meta()["source"] == "live"
	})
}

// The anchor moves at the Pacific midnight, and the key of the series with it. A copy of the day before still answers. It lacks the anchor's
// day, which is not counted, with a note, whether or not the copy shows that it is not published.
func TestSummaryAndTimeseries200StaleAfterTheAnchorMoved(t *testing.T) {
	t.Parallel()
	settled := []string{"start_date", "2026-10-01", "end_date", "2026-10-31"}
	toAnchor := []string{"start_date", "2026-10-01", "end_date", "2026-11-20"}
	// Of all days, not of the last one, and not of as many as the upstream can be late.
	const late = "Search Console has not published %s2026-11-19 and 2026-11-20 yet."
	for last, c := range map[string]struct {
		days int
		note string
	}{
		"2026-11-19": {50, "1 day is not archived and not counted: 2026-11-20."},
		"2026-11-18": {49, fmt.Sprintf(late, "")},
		"2026-11-14": {45, fmt.Sprintf(late, "2026-11-15, 2026-11-16, 2026-11-17, 2026-11-18, ")},
	} {
		w := newWorld(t)
		w.answerWith(series(nil, "2025-07-20", last, ""))
		fresh := w.get("pro", w.path("main", "/summary"), settled...).ok(t)
		w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
		w.setClock("2026-11-22T19:00:00Z")
		stale := w.get("pro", w.path("main", "/summary"), settled...).ok(t)
		if stale.meta()["stale_reason"] == nil || stale.meta()["source"] != "stored" || stale.meta()["cache"] != "hit" ||
			!strings.Contains(notes(stale), "a copy from 2026-11-21T20:00:00Z") || encoded(w, stale.data()) != encoded(w, fresh.data()) {
			t.Errorf("%s: %s, want the figures of %s", last, stale.body, fresh.body)
		}
		r := w.get("pro", w.path("main", "/timeseries"), toAnchor...).ok(t)
		if len(r.rows()) != c.days || !strings.Contains(notes(r), c.note) || !strings.Contains(notes(r), "a copy from") {
			t.Errorf("%s: %d days, with the notes %s", last, len(r.rows()), notes(r))
		}
		if last == "2026-11-14" { // within the days of the copy
			wantNote(t, w.get("pro", w.path("main", "/timeseries"), "start_date", "2026-11-15", "end_date", "2026-11-15").ok(t),
				"The figures of Search Console are a copy from 2026-11-21T20:00:00Z.", "Search Console has not published 2026-11-15 yet.")
		}
	}
}

// A comparison leaves out the anchor's day, which a copy of the day before lacks. A request for that day alone, or without budget, has no
// answer, and once the archive has the day, it answers.
func TestSummary200StaleWithoutTheAnchorsDay(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping, limited(func(p *policy.Plan) { p.SearchConsoleCallsPerDay = 3 }))
	w.answerWith(series(nil, "2025-07-20", "2026-11-19", ""))
	path, copied := w.path("main", "/summary"), "The figures of Search Console are a copy from 2026-11-22T07:00:00Z."
	w.setClock("2026-11-22T07:00:00Z")
	w.get("pro", path).ok(t)
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	w.setClock("2026-11-22T08:30:00Z") // half an hour into the day after, in Pacific time
	w.get("pro", path, "start_date", "2026-11-20", "end_date", "2026-11-20").want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
	r := w.get("pro", path, "date_range", "last_7d", "compare", "previous_period").ok(t)
	wantNote(t, r, copied, "1 day is not archived and not counted: 2026-11-20.",
		"1 of 7 days is missing on one side: both periods are compared over the other 6.")
	for _, side := range []string{"totals", "previous"} {
		if clicks := r.data()[side].(map[string]any)["clicks"]; clicks != 60.0 {
			t.Errorf("%s: %v clicks, want those of six days", side, clicks)
		}
	}
	w.get("pro", path, "date_range", "last_7d").want(t, http.StatusTooManyRequests, policy.CodeQuotaExceeded)
	w.chronicle(history, "main", mainSite).keep(t, "2026-11-20", "2026-11-20")
	w.setClock("2026-11-23T00:30:00Z") // a day of budgets later, while the copy may still be served
	if r := w.get("pro", path, "date_range", "last_7d").ok(t); strings.Contains(notes(r), "a copy from") ||
		!strings.Contains(notes(r), "6 days are not archived") {
		t.Errorf("the notes are %s", notes(r))
	}
}

// The copy also answers if the object store fails at the same time, as in an outage of the network to both.
func TestTimeseries200StaleAfterTheAnchorMovedWithoutTheArchive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Reports.History = brokenHistory{} })
	w.answerWith(series(nil, "2025-07-20", "2026-11-19", ""))
	w.get("pro", w.path("main", "/timeseries")).ok(t)
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	w.setClock("2026-11-22T08:30:00Z")
	r := w.get("pro", w.path("main", "/timeseries"), "date_range", "last_28d").ok(t)
	if len(r.rows()) != 27 || !strings.Contains(notes(r), "1 day is not archived and not counted: 2026-11-20.") {
		t.Errorf("%d days, with the notes %s", len(r.rows()), notes(r))
	}
}

// At the far edge of the live window, the archive answers, since its days may complete the copy.
func TestTimeseries200ArchiveAtTheFarEdgeAfterTheAnchorMoved(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	c := w.chronicle(history, "main", mainSite)
	c.keep(t, "2025-07-18", "2025-07-24")
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) {
		mustWrite(rw, `{"rows":[{"keys":["2025-07-20"],"clicks":0,"impressions":0,"ctr":0,"position":0},`+
			`{"keys":["2025-07-24"],"clicks":1,"impressions":10,"ctr":0.1,"position":2}],"responseAggregationType":"byProperty"}`)
	})
	w.get("pro", w.path("main", "/summary")).ok(t)
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	w.setClock("2026-11-22T19:00:00Z")
	r := w.get("pro", w.path("main", "/timeseries"), "start_date", "2025-07-21", "end_date", "2025-07-24").ok(t)
	wantRows(t, "days", r.rows(), "date", w.oracle().ask(t, mainSite, "date", "2025-07-21", "2025-07-24", 100))
	if r.meta()["stale_reason"] == nil || strings.Contains(notes(r), "a copy from") {
		t.Errorf("meta is %v", r.meta())
	}
}

// While the upstream fails, an answer from the archive alone is kept for freshArchived, and has then the days that came meanwhile.
func TestQueries200ArchiveInPlaceOfLiveIsReadAgain(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	c := w.chronicle(history, "main", mainSite)
	c.keep(t, "2026-10-01", "2026-10-02")
	w.faults(gscsim.Faults{Status: 503})
	for i, want := range []bool{true, true, false} { // whether a day is missing
		w.advance(time.Duration(i) * freshArchived / 2)
		r := w.get("pro", w.path("main", "/queries"), "start_date", "2026-10-01", "end_date", "2026-10-03").ok(t)
		if r.meta()["stale_reason"] == nil || strings.Contains(notes(r), "1 day is not archived and not counted: 2026-10-03.") != want {
			t.Errorf("answer %d: meta is %v", i, r.meta())
		}
		c.keep(t, "2026-10-03", "2026-10-03")
	}
}

// The copy of the day before begins with a day that is no longer live. A request for it is answered from the archive alone, or the day
// would count twice.
func TestTimeseries200ArchiveBeyondTheFarEdgeAfterTheAnchorMoved(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	w.chronicle(history, "main", mainSite).keep(t, "2025-07-20", "2025-07-24")
	w.answerWith(series(nil, "2025-07-20", "2026-11-19", ""))
	w.get("pro", w.path("main", "/summary")).ok(t)
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	w.setClock("2026-11-22T19:00:00Z")
	r := w.get("pro", w.path("main", "/timeseries"), "start_date", "2025-07-20", "end_date", "2025-07-24").ok(t)
	wantRows(t, "days", r.rows(), "date", w.elder().ask(t, mainSite, "date", "2025-07-20", "2025-07-24", 100))
	if r.meta()["stale_reason"] == nil || strings.Contains(notes(r), "a copy from") {
		t.Errorf("meta is %v", r.meta())
	}
}

// An answer from the archive alone names the days that it lacks as not archived, whether or not Search Console has published them.
func TestQueries200ArchiveInPlaceOfUnpublishedDays(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	w.chronicle(history, "main", mainSite).keep(t, "2026-11-01", "2026-11-16")
	w.answerWith(series(nil, "2025-07-20", "2026-11-17", ""))
	w.get("pro", w.path("main", "/summary")).ok(t)
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	r := w.get("pro", w.path("main", "/queries"), "start_date", "2026-11-01", "end_date", "2026-11-19").ok(t)
	if r.meta()["stale_reason"] == nil || !strings.HasSuffix(notes(r), "3 days are not archived and not counted: 2026-11-17 to 2026-11-19.") {
		t.Errorf("meta is %v", r.meta())
	}
}

// A customer without live budget is served stale copies.
func TestSummary200WithoutBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.SearchConsoleCallsPerDay = 1 }))
	w.wantCacheStatus(t, "miss", 1, w.path("main", "/summary"))
	for range 3 {
		w.wantCacheStatus(t, "hit", 0, w.path("main", "/timeseries"))
		w.advance(freshAtAnchor)
	}
	w.live("pro", w.path("main", "/summary")).want(t, http.StatusTooManyRequests, policy.CodeQuotaExceeded)
	w.get("pro", w.path("main", "/queries")).want(t, http.StatusTooManyRequests, policy.CodeQuotaExceeded)
	w.wantUsage(t, "pro", 7, 7, 1)
}

// Five failed calls in a row open the circuit of a property: copies are served with the reason, filtered requests fail, and nothing is
// charged. Ten seconds later, half-open, one call is tried.
func TestSummary200WhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("pro", w.path("main", "/summary")).ok(t)
	w.advance(freshAtAnchor)
	w.must(w.sim.SetFaults(gscsim.Faults{Status: 503}))
	for range 5 {
		w.get("pro", w.path("main", "/queries")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
	}
	calls := w.calls(func() {
		r := w.live("pro", w.path("main", "/summary")).ok(t)
		if r.meta()["stale_reason"] == nil || r.meta()["source"] != "stored" || !strings.Contains(notes(r), "a copy from") {
			t.Errorf("meta is %v", r.meta())
		}
		w.get("pro", w.path("main", "/summary"), "filters", filtersOf("device", "is", "mobile")).
			want(t, http.StatusServiceUnavailable, openapi.CodeFilteredUnavailable)
		w.get("pro", w.path("main", "/pages")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
	})
	if calls != 0 {
		t.Errorf("%d calls while the circuit breaker is open", calls)
	}
	w.wantUsage(t, "pro", 10, 10, 6)
	w.must(w.sim.SetFaults(gscsim.Faults{}))
	w.gatewayClock.Add(int64(10 * time.Second))
	if r := w.live("pro", w.path("main", "/summary")).ok(t); r.meta()["source"] != "live" {
		t.Errorf("meta is %v", r.meta())
	}
}

// Jobs and the server share cooldowns, and jobs see when a request waits for the upstream.
func TestServerSharesCooldownsWithJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := context.Background()
	w.faults(gscsim.Faults{Reason: "quotaExceeded"})
	job := upstream.Target{PropertyID: "another", Site: w.properties["main"].Site, ConnectionID: w.properties["main"].Connection.ID,
		Revision: 1, Healthy: true}
	query := translate.DayQuery(job.Site, translate.ByDevice, translate.NewDate(2026, 11, 1), 10)
	if _, err := w.gateway.Query(ctx, job, query); upstream.KindOf(err) != upstream.Quota {
		t.Error(err)
	}
	calls := w.calls(func() {
		w.get("pro", w.path("main", "/summary")).want(t, http.StatusTooManyRequests, policy.CodeUpstreamQuota, "900 seconds")
		_, err := w.gateway.Query(ctx, job, query)
		if refusal, ok := errors.AsType[*upstream.Error](err); !ok || refusal.Kind != upstream.Quota || refusal.RetryAfter != 15*time.Minute {
			t.Errorf("a job is told %v", err)
		}
	})
	if calls != 0 {
		t.Errorf("%d calls during the cooldown", calls)
	}
	w.faults(gscsim.Faults{})
	entered, leave := make(chan struct{}), make(chan struct{})
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		mustWrite(rw, `{"responseAggregationType":"byProperty"}`)
	})
	if w.server.Busy() {
		t.Error("busy without a request")
	}
	answered := make(chan response)
	request, err := http.NewRequest(http.MethodGet, w.base+w.path("prefix", "/summary"), nil)
	w.must(err)
	request.Header.Set("Authorization", "Bearer "+w.keys["pro"])
	go func() { answered <- w.do(request) }()
	<-entered
	if !w.server.Busy() {
		t.Error("not busy while a customer waits")
	}
	close(leave)
	(<-answered).ok(t)
	w.await(t, "the end of the fill", func() bool { return !w.server.Busy() })
}

// A hedged request that cannot be answered from copies, because its time is over, goes on with what it has read from the archive.
func TestFallBackLeavesTheArchivePartToItsCaller(t *testing.T) {
	t.Parallel()
	folder, err := bucket.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	history, err := archive.NewHistory(archive.HistoryConfig{Bucket: folder})
	if err != nil {
		t.Fatal(err)
	}
	days := make([]archive.Day, 0, largeDays+1)
	first := translate.NewDate(2024, time.January, 1)
	for d := range cap(days) {
		var rows translate.RowsBuilder
		for i := range archive.TopRows {
			rows.Add(fmt.Appendf(nil, "query %d of day %d", i, d), translate.Metrics{Clicks: 1, Impressions: 1, Position: 1})
		}
		days = append(days, archive.Day{Date: first + translate.Date(d), Dimension: translate.ByQuery, Rows: rows.Rows(), Final: true})
	}
	if err := history.Merge(t.Context(), "p", days); err != nil {
		t.Fatal(err)
	}
	sum, err := history.Sum(t.Context(), "p", translate.ByQuery, translate.DateRange{Start: first, End: days[len(days)-1].Date})
	if err != nil {
		t.Fatal(err)
	}
	part := &archivePart{parts: []translate.Part{sum.Sums}, sums: []archive.Result{sum}}
	defer part.release()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	slots, taken := cpubound.New(), 0
	for slots.Acquire(over) == nil { // until none is left
		taken++
	}
	defer func() {
		for range taken {
			slots.Release()
		}
	}()
	s, c := &reportServer{largeWork: newLargeWork(slots)}, &call{params: &translate.Params{}}
	q := reportRequest{call: c, report: translate.BreakdownReport(translate.ByQuery), window: translate.Window{LiveStart: 1}}
	m := (&plan{reportRequest: q, fetches: []translate.Fetch{{By: translate.ByQuery}}, archive: part}).withoutUpstream()
	if _, err := s.fallBack(over, &m, liveFailure{err: lateError{reasonSlow}}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if part.parts == nil || part.sums == nil || part.sums[0].Sums == nil {
		t.Error("the memory of the part was given up")
	}
}
