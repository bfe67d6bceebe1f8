package proxy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"sara/policy"
	"sara/translate"
)

// calls returns the number of upstream calls that f caused.
func (w *world) calls(f func()) int64 {
	before := w.sim.Calls().SearchAnalytics
	f()
	return w.sim.Calls().SearchAnalytics - before
}

// wantCacheStatus sends a request, and checks the cache status in both places and the number of upstream calls.
func (w *world) wantCacheStatus(t *testing.T, want string, calls int64, path string, query ...string) (r response) {
	t.Helper()
	made := w.calls(func() { r = w.get("pro", path, query...).ok(t) })
	if r.meta()["cache"] != want || r.header.Get("X-Cache") != want || made != calls {
		t.Errorf("%s %v: meta.cache %v, X-Cache %s, %d calls; want %s and %d", path, query, r.meta()["cache"], r.header.Get("X-Cache"), made, want, calls)
	}
	return r
}

// Explicit defaults, reordered parameters, a preset and its dates are one request to the upstream. A larger limit costs no call,
// another order costs one wide sample, and after that nothing about the period costs a call.
func TestQueries200OneUpstreamCall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes over a second")
	}
	t.Parallel()
	w := newWorld(t)
	path := w.path("large", "/queries")
	w.wantCacheStatus(t, "miss", 1, path, "limit", "10", "order_by", "-clicks")
	for _, query := range []string{"?order_by=-clicks&limit=10", "?limit=10", "?limit=10&date_range=last_28d",
		"?limit=10&start_date=2026-10-23&end_date=2026-11-19", "?limit=10&filters=%5B%5D", "?limit=1000", "?limit=1", ""} {
		w.wantCacheStatus(t, "hit", 0, path+query)
	}
	w.wantCacheStatus(t, "miss", 1, path, "order_by", "impressions")
	for i, order := range translate.Orders() {
		w.wantCacheStatus(t, "hit", 0, path, "order_by", order, "limit", []string{"1", "100", "1000"}[i%3])
	}
	w.wantCacheStatus(t, "miss", 1, w.path("large", "/movers/queries")) // the period before
	w.wantCacheStatus(t, "hit", 0, w.path("large", "/movers/queries"), "limit", "50", "min_clicks", "5")
	w.wantCacheStatus(t, "hit", 0, path, "start_date", "2026-09-25", "end_date", "2026-10-22", "order_by", "ctr")
}

// A sample that is not full has all rows, so that no other order needs a wider one.
func TestBreakdown200Complete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, endpoint := range []string{"/queries", "/countries", "/devices"} {
		w.wantCacheStatus(t, "miss", 1, w.path("prefix", endpoint))
		for _, order := range translate.Orders() {
			w.wantCacheStatus(t, "hit", 0, w.path("prefix", endpoint), "order_by", order)
		}
	}
	w.wantCacheStatus(t, "miss", 1, w.path("main", "/countries"), "order_by", "key")
	w.wantCacheStatus(t, "hit", 0, w.path("main", "/countries"))
}

// One daily series answers every summary and timeseries of a property.
func TestSummary200OneSeries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.oracle()
	const site = "sc-domain:example.com"
	made := w.calls(func() {
		for i := range 15 {
			end := *dateOf(t, "2026-11-19") - translate.Date(i*13)
			start := end - translate.Date(i*7)
			r := w.get("pro", w.path("main", "/summary"), "start_date", start.String(), "end_date", end.String(), "compare", "previous_period").ok(t)
			wantMetrics(t, "totals", r.data()["totals"], o.total(t, site, start.String(), end.String()))
			previous := r.data()["previous"].(map[string]any)
			wantMetrics(t, "previous", previous, o.total(t, site, previous["start_date"].(string), previous["end_date"].(string)))
			r = w.get("pro", w.path("main", "/timeseries"), "start_date", start.String(), "end_date", end.String()).ok(t)
			wantRows(t, "days", r.rows(), "date", o.ask(t, site, "date", start.String(), end.String(), 25000))
		}
	})
	if made != 1 {
		t.Errorf("30 requests caused %d upstream calls", made)
	}
	if saved := w.metric("sara_cache_calls_saved_by_widening_total"); saved != 29 {
		t.Errorf("%v calls are counted as saved by widening, want 29", saved)
	}
}

// metric returns the value of an unlabelled metric, or the sum of a labelled one.
func (w *world) metric(name string) (sum float64) {
	w.t.Helper()
	answer, err := http.Get(w.admin.URL + "/metrics")
	w.must(err)
	text, err := io.ReadAll(answer.Body)
	w.must(err)
	w.must(answer.Body.Close())
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok && strings.ContainsAny(rest[:1], " {") {
			value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(strings.TrimSpace(rest), ' ')+1:]), 64)
			w.must(err)
			sum += value
		}
	}
	return sum
}

// Filtered figures are cached by the conditions that the filters expand to, in any order; brand terms and page groups are looked
// up each time.
func TestQueries200Filtered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/queries")
	w.wantCacheStatus(t, "miss", 1, path, "filters", filtersOf("brand", "is", "brand", "device", "is", "mobile"))
	w.wantCacheStatus(t, "hit", 0, path, "filters", filtersOf("device", "equals", "MOBILE", "brand", "equals", "brand"))
	w.wantCacheStatus(t, "miss", 1, path, "filters", filtersOf("brand", "is_not", "brand"))
	w.wantCacheStatus(t, "miss", 1, path)

	summary := w.path("main", "/summary")
	w.wantCacheStatus(t, "miss", 1, summary, "filters", filtersOf("brand", "is", "brand"))
	w.wantCacheStatus(t, "hit", 0, summary, "filters", filtersOf("brand", "is", "brand"), "compare", "previous_period")
	w.wantCacheStatus(t, "hit", 0, w.path("main", "/timeseries"), "filters", filtersOf("brand", "is", "brand"))

	term, err := translate.ParseBrandTerm("shop")
	w.must(err)
	before := w.wantCacheStatus(t, "hit", 0, path, "filters", filtersOf("brand", "is", "brand", "device", "is", "mobile"))
	_, err = w.store.SetBrandTerms(context.Background(), w.properties["main"].ID, []translate.BrandTerm{term})
	w.must(err)
	after := w.wantCacheStatus(t, "miss", 1, path, "filters", filtersOf("brand", "is", "brand", "device", "is", "mobile"))
	if string(mustJSON(t, before.data())) == string(mustJSON(t, after.data())) {
		t.Error("other brand terms give the same rows")
	}
}

func mustJSON(t testing.TB, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What a client keeps is not what the same request means once the anchor has moved, at midnight in Los Angeles.
func TestSummary200FreshnessEndsWithTheDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/summary")
	w.setClock("2026-12-03T07:59:15Z")
	w.get("pro", path, "start_date", "2026-10-01", "end_date", "2026-10-31").ok(t)
	for _, c := range []struct {
		days   []string
		before string
	}{
		{nil, "private, max-age=45"},
		{[]string{"date_range", "previous_month"}, "private, max-age=45"},
		{[]string{"start_date", "2026-11-30", "end_date", "2026-12-31"}, "private, max-age=45"}, // which is moved back
		{[]string{"start_date", "2026-10-01", "end_date", "2026-10-31"}, "private, max-age=21600"},
	} {
		for range 2 { // the second one is memoized
			w.wantMaxAge(t, c.before, w.get("pro", path, c.days...).ok(t))
		}
	}
	w.setClock("2026-12-03T08:00:00Z")
	if r := w.get("pro", path, "date_range", "previous_month").ok(t); !strings.Contains(string(r.body), `"start_date":"2026-11-01"`) {
		t.Errorf("the month before is %v", r.meta()["date_range"])
	}
}

// Figures that touch the anchor are fresh for ten minutes, settled ones for six hours; after that they are served
// stale-while-revalidate.
func TestSummary200Freshness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/summary")
	settled := []string{"start_date", "2026-10-01", "end_date", "2026-11-13"}
	w.wantCacheStatus(t, "miss", 1, path)
	w.advance(freshAtAnchor - time.Second)
	w.wantMaxAge(t, "private, max-age=1", w.wantCacheStatus(t, "hit", 0, path))
	w.wantMaxAge(t, "private, max-age=21001", w.wantCacheStatus(t, "hit", 0, path, settled...))
	w.advance(time.Second)
	w.wantMaxAge(t, "private, max-age=21000", w.wantCacheStatus(t, "hit", 0, path, settled...))
	before := w.sim.Calls().SearchAnalytics
	w.wantMaxAge(t, "private, max-age=0", w.get("pro", path).ok(t)) // out of date
	w.awaitCalls(t, before+1)
	w.await(t, "the copy to be replaced", func() bool { return w.get("pro", path).ok(t).header.Get("Cache-Control") == "private, max-age=600" })
	if calls := w.sim.Calls().SearchAnalytics; calls != before+1 {
		t.Errorf("replacing a copy took %d calls", calls-before)
	}
	w.advance(25 * time.Hour)
	w.wantCacheStatus(t, "miss", 1, path)
}

// Rows that a wider sample has replaced do not answer any more.
func TestQueries200FresherSample(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("large", "/queries")
	w.wantCacheStatus(t, "miss", 1, path)
	w.advance(freshAtAnchor - time.Minute)
	w.wantCacheStatus(t, "miss", 1, path, "order_by", "impressions")
	w.advance(2 * time.Minute)
	w.wantMaxAge(t, "private, max-age=480", w.wantCacheStatus(t, "hit", 0, path))
}

func (w *world) wantMaxAge(t *testing.T, want string, r response) {
	t.Helper()
	if got := r.header.Get("Cache-Control"); got != want {
		t.Errorf("Cache-Control is %q, want %q", got, want)
	}
}

// await waits for a condition that a background task brings about.
func (w *world) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func (w *world) awaitCalls(t *testing.T, calls int64) {
	t.Helper()
	w.await(t, "an upstream call", func() bool { return w.sim.Calls().SearchAnalytics >= calls })
}

// no-cache takes a copy of less than ten minutes, since browsers send it with every view of a page. It refreshes an older copy,
// also one that would be fresh without it, and is charged for that.
func TestQueries200NoCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/countries?start_date=2026-10-01&end_date=2026-10-07") // settled: fresh for hours
	calls := 0
	for i, c := range []struct {
		value   string
		advance time.Duration
		want    string
	}{
		{"no-cache", 0, "bypass"}, // there is no copy
		{"no-cache", 0, "hit"},
		{"max-age=0, No-Cache", freshAtAnchor - time.Second, "hit"},
		{"no-cache", time.Second, "bypass"},
		{"no-cache", 0, "hit"},
		{"max-age=0", freshAtAnchor, "hit"},
		{"no-cache", 0, "bypass"},
	} {
		w.advance(c.advance)
		made := w.calls(func() {
			r := w.getWith("pro", path, nil, "Cache-Control", c.value).ok(t)
			if r.meta()["cache"] != c.want || r.header.Get("X-Cache") != c.want {
				t.Errorf("%d, %s: meta.cache is %v, X-Cache %q, want %s", i, c.value, r.meta()["cache"], r.header.Get("X-Cache"), c.want)
			}
		})
		if (made == 1) != (c.want == "bypass") {
			t.Errorf("%d, %s: %d calls", i, c.value, made)
		}
		calls += int(made)
		w.wantUsage(t, "pro", 2*i+2, 2*i+2, calls)
	}
	// Other limits and orders of the same rows are copies too.
	if made := w.calls(func() { w.live("pro", path+"&limit=3").ok(t) }); made != 0 {
		t.Errorf("another limit made %d calls", made)
	}
	// Of the movers' two sides, only the one without a young copy is read.
	movers := w.path("main", "/movers/queries?start_date=2026-10-01&end_date=2026-10-07")
	w.get("pro", movers).ok(t)
	if made := w.calls(func() { w.live("pro", movers).ok(t) }); made != 0 {
		t.Errorf("movers from young copies made %d calls", made)
	}
	w.advance(freshAtAnchor)
	if made := w.calls(func() { w.live("pro", movers).ok(t) }); made != 2 {
		t.Errorf("movers from old copies made %d calls", made)
	}
	if r := w.getWith("pro", path, nil, "Cache-Control", "max-age=0").ok(t); r.meta()["cache"] != "hit" {
		t.Errorf("another directive: %v", r.meta()["cache"])
	}
}

// Access is checked before the cache: a cached answer is not served once access is lost.
func TestSummary404BeforeTheCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantCacheStatus(t, "miss", 1, w.path("main", "/summary"))
	w.get("agency", w.path("main", "/summary")).ok(t)
	w.must(w.store.LeaveWorkspace(context.Background(), "agency@example.com", "Main"))
	w.get("agency", w.path("main", "/summary")).want(t, http.StatusNotFound, policy.CodeNotFound)
	_, err := w.store.RevokeKey(context.Background(), w.keyIDs["pro"])
	w.must(err)
	w.get("pro", w.path("main", "/summary")).want(t, http.StatusUnauthorized, policy.CodeRevokedKey)
}

// Two properties of the same site, of two accounts (tenants), share no cache entry.
func TestSummary200NeverShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantCacheStatus(t, "miss", 1, w.path("twin_a", "/summary"))
	w.wantCacheStatus(t, "miss", 1, w.path("twin_b", "/summary"))
	a, b := w.get("pro", w.path("twin_a", "/summary")).ok(t), w.get("pro", w.path("twin_b", "/summary")).ok(t)
	if a.meta()["property_id"] == b.meta()["property_id"] {
		t.Errorf("both answers are about %v", a.meta()["property_id"])
	}
	made := w.calls(func() { w.get("other", w.path("foreign", "/summary")).ok(t) })
	if made != 1 {
		t.Errorf("a property of another account took %d calls", made)
	}
}
