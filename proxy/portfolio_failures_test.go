package proxy

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/openapi"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// A property whose call fails has an error of its own, and totals leave it out.
func TestPortfolio200WithOneFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "twin.example") {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.sim.ServeHTTP(rw, r)
	})
	got := w.portfolio("pro")
	for _, name := range []string{"twin_a", "twin_b"} {
		row := got.row(t, w, name)
		if row.code() != openapi.CodeUpstreamUnavailable || string(row.Totals) != "null" ||
			row.Source != nil || row.ClicksDelta != nil || row.Notes == nil {
			t.Errorf("%s: %+v", name, row)
		}
	}
	if row := got.row(t, w, "main"); row.Error != nil {
		t.Errorf("main: %+v", row.Error)
	}
	got.wantTotals(t, false)
	wantText(t, "notes", strings.Join(got.Meta.Notes, " "), "properties have no figures")
	w.answerWith(nil)
	w.gatewayClock.Add(int64(time.Minute))
	before := w.called()
	if row := w.portfolio("pro").row(t, w, "twin_a"); row.Error != nil {
		t.Errorf("later: %+v", row.Error)
	}
	// The disconnected one takes no call. On a busy machine, others may not have answered in time.
	if calls, failed := w.called()-before, int64(got.codes()[openapi.CodeUpstreamUnavailable]); calls > failed-1 {
		t.Errorf("going on took %d calls after %d failures", calls, failed)
	}
}

// However many portfolios an account asks for at a time, few are made: each holds memory for all of its properties. Others have theirs.
func TestPortfolio503ServiceUnavailableMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Capacity.FillPatience = 10 * time.Millisecond })
	opened := make(chan struct{})
	w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		<-opened
		w.sim.ServeHTTP(rw, r)
	})
	const asked = 3 * portfoliosPerAccount
	answers := make(chan response, asked)
	for range asked {
		go func() { answers <- w.get("pro", "/v1/portfolio") }()
	}
	for range asked - portfoliosPerAccount {
		w.wantBusy(t, <-answers)
	}
	other := make(chan response, 1)
	go func() { other <- w.get("other", "/v1/portfolio") }()
	w.get("other", "/v1/me").ok(t)
	close(opened)
	for range portfoliosPerAccount {
		(<-answers).ok(t)
	}
	(<-other).ok(t)
	w.get("pro", "/v1/portfolio").ok(t)
}

// A copy that is at hand does not hide that the property can no longer be read: its row says so, as its own summary does.
func TestPortfolio200AccessLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if row := w.portfolio("pro").row(t, w, "prefix"); row.Error != nil || *row.Source != "live" || row.StaleReason != nil {
		t.Errorf("before: %+v", row)
	}
	w.must(w.sim.SetFaults(gscsim.Faults{Reason: "forbidden", Site: w.properties["prefix"].Site}))
	w.advance(freshAtAnchor)
	w.await(t, "the reason", func() bool { return w.get("pro", w.path("prefix", "/summary")).ok(t).meta()["stale_reason"] != nil })
	w.wantConnection(t, "prefix", false)
	whole := w.portfolio("pro")
	row := whole.row(t, w, "prefix")
	if row.Error != nil || *row.Source != "stored" || row.StaleReason == nil {
		t.Errorf("without access: %+v", row)
	}
	w.wantSummary(row, &whole, nil)
	if row := whole.row(t, w, "main"); *row.Source != "live" || row.StaleReason != nil {
		t.Errorf("another property: %+v", row)
	}
}

// A budget that is used up leaves a property to its archive, or to an error. The next day goes on with the others.
func TestPortfolio200BudgetOfLiveCalls(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	const budget = 4
	sites := smallSites(10)
	w := newWorldWith(t, sites, &theWorlds, keeping, limited(func(p *policy.Plan) { p.SearchConsoleCallsPerDay = budget }))
	w.addSites(sites)
	w.keepTotals(history, w.properties["Site 009"], "2026-11-10", "2026-11-17") // not all of the days
	first := w.portfolio("pro", "limit", "200")
	codes := first.codes()
	if calls := w.called(); calls > budget || codes[policy.CodeQuotaExceeded] < 6 {
		t.Errorf("%d calls, %v", calls, codes)
	}
	row := first.row(t, w, "Site 009")
	if row.Error != nil || row.Source == nil || *row.Source != "stored" || row.StaleReason == nil || !strings.Contains(*row.StaleReason, "used up") ||
		!strings.Contains(strings.Join(row.Notes, " "), "not archived") {
		t.Errorf("the archive answers %+v", row)
	}
	answered := codes[""]
	w.get("pro", w.path("Site 008", "/summary")).want(t, http.StatusTooManyRequests, policy.CodeQuotaExceeded)
	w.advance(5 * time.Hour) // midnight UTC, and still the same day in California
	second := w.portfolio("pro", "limit", "200")
	if codes := second.codes(); codes[""] < answered+budget-1 || w.called() > 2*budget {
		t.Errorf("the next day: %v after %v, %d calls", codes, first.codes(), w.called())
	}
	w.wantUsage(t, "pro", 2, 2, budget)
}

// keepTotals archives the totals of days.
func (w *world) keepTotals(history *archive.History, p sqlstore.Property, first, last string) {
	w.t.Helper()
	w.keepRows(history, p, translate.ByDate, translate.Date.String, first, last)
}

// keepRows archives one row of each day, whose key depends on the day.
func (w *world) keepRows(history *archive.History, p sqlstore.Property, by translate.Dimension, key func(translate.Date) string, first, last string) {
	w.t.Helper()
	start, end := *dateOf(w.t, first), *dateOf(w.t, last)
	var days []archive.Day
	for day := start; day <= end; day++ {
		var b translate.RowsBuilder
		b.Add([]byte(key(day)), translate.Metrics{Clicks: 10, Impressions: 100, CTR: 0.1, Position: 2.5})
		days = append(days, archive.Day{Date: day, Dimension: by, Final: true, Rows: b.Rows()})
	}
	w.must(history.Merge(context.Background(), p.ID, days))
	w.must(w.store.SaveArchiveState(context.Background(), sqlstore.ArchiveState{PropertyID: p.ID, First: &start, Last: &end}))
}

// An archive that has every day takes no call; a copy of the live series comes before it.
func TestPortfolio200FromTheArchive(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	w.keepTotals(history, w.properties["prefix"], "2026-10-01", "2026-11-19")
	row := w.portfolio("pro").row(t, w, "prefix")
	if row.Error != nil || *row.Source != "stored" || row.StaleReason != nil ||
		string(row.Totals) != `{"clicks":280,"impressions":2800,"ctr":0.1,"position":2.5}` {
		t.Errorf("the archive answers %+v %s", row, row.Totals)
	}
	if row := w.portfolio("pro", "compare", "previous_period").row(t, w, "prefix"); row.Error != nil || *row.Source != "live" {
		t.Errorf("with days that the archive lacks: %+v", row)
	}
	whole := w.portfolio("pro")
	w.wantSummary(whole.row(t, w, "prefix"), &whole, nil)
	if row := whole.row(t, w, "prefix"); *row.Source != "live" {
		t.Errorf("with a copy at hand: %+v", row)
	}
}

// The archive does not answer in place of Search Console if the client wants live figures, or if it has rows of the days without their totals.
func TestPortfolio200LiveInPlaceOfTheArchive(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	w.keepTotals(history, w.properties["prefix"], "2026-10-01", "2026-11-19")
	w.keepRows(history, w.properties["main"], translate.ByDevice, func(translate.Date) string { return "mobile" }, "2026-10-01", "2026-11-19")
	if row := w.portfolio("pro").row(t, w, "main"); row.Error != nil || *row.Source != "live" {
		t.Errorf("without totals: %+v", row)
	}
	live := readPortfolio(t, w.live("pro", "/v1/portfolio").ok(t).body)
	if row := live.row(t, w, "prefix"); row.Error != nil || *row.Source != "live" {
		t.Errorf("with no-cache: %+v", row)
	}
}

// A request is one of the request budgets, whatever it takes.
func TestPortfolio429(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.RequestsPerDay = 2 }))
	r := w.get("pro", "/v1/portfolio").ok(t)
	if left := r.header.Get("X-RateLimit-Remaining"); left != "1" {
		t.Errorf("%s requests are left of 2", left)
	}
	w.portfolio("pro")
	w.get("pro", "/v1/portfolio").want(t, http.StatusTooManyRequests, policy.CodeQuotaExceeded)
}

// Days that are not published are named by the property that they concern, and what concerns all is named once.
func TestPortfolio200Notes(t *testing.T) {
	t.Parallel()
	late := gscsim.Site{URL: "sc-domain:late.example", Queries: 5, Pages: 3, Publication: gscsim.Publication{Lag: 4}}
	w := newWorldWith(t, []gscsim.Site{late}, &theWorlds)
	w.addSites([]gscsim.Site{late})
	got := w.portfolio("pro", "start_date", "2026-11-13", "end_date", "2026-11-25")
	wantText(t, "the note of the late site", strings.Join(got.row(t, w, "Site 000").Notes, " "),
		"Search Console has not published 2026-11-18 and 2026-11-19 yet.")
	if notes := got.row(t, w, "main").Notes; len(notes) != 0 {
		t.Errorf("main has the notes %q", notes)
	}
	const noted = "1 property has notes of its own, which concern these totals too."
	wantText(t, "the notes of all", strings.Join(got.Meta.Notes, " "), "end_date 2026-11-25 was moved back to 2026-11-19", noted)
	page := w.portfolio("pro", "start_date", "2026-11-13", "end_date", "2026-11-19", "limit", "1")
	wantText(t, "the notes of one page", strings.Join(page.Meta.Notes, " "), noted)
	if row := page.Data.Rows[0]; len(row.Notes) != 0 {
		t.Errorf("%s, the property on the page, has the notes %q", row.Name, row.Notes)
	}
}

// Properties of the same site are added up twice, so a note says how many: on any page, and only if they have figures.
func TestPortfolio200NotesOfTheSameSite(t *testing.T) {
	t.Parallel()
	parts := []gscsim.Site{{URL: "https://www.example.com/shop/", Queries: 5, Pages: 3}, {URL: "sc-domain:blog.example.com", Queries: 5, Pages: 3}}
	w := newWorldWith(t, parts, &theWorlds)
	const one, three = "1 property is the same site as another, or a part of it: these totals count its figures more than once.",
		"3 properties are the same sites as others, or parts of them: these totals count their figures more than once."
	wantText(t, "the notes of twins", strings.Join(w.portfolio("pro", "limit", "1", "offset", "8").Meta.Notes, " "), one)
	w.addSites(parts)
	wantText(t, "the notes of twins, a prefix and a subdomain", strings.Join(w.portfolio("pro").Meta.Notes, " "), three)
	if notes := w.portfolio("workspace_scoped").Meta.Notes; len(notes) != 0 {
		t.Errorf("a single property has the notes %q", notes)
	}
}

// At most eight calls are made at a time. What does not answer in time has an error, and the next request needs no further call for it.
func TestPortfolio200AfterItsDeadline(t *testing.T) {
	t.Parallel()
	sites := smallSites(20)
	w := newWorldWith(t, sites, &theWorlds)
	w.addSites(sites)
	var running, most atomic.Int64
	var waiting sync.WaitGroup
	waiting.Add(portfolioWorkers)
	release := make(chan struct{})
	w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		n := running.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n <= portfolioWorkers {
			waiting.Done()
		}
		<-release
		running.Add(-1)
		w.sim.ServeHTTP(rw, r)
	})
	i := slices.IndexFunc(table(), func(r route) bool { return r.Operation == "getPortfolio" })
	http := w.request("/v1/portfolio?limit=200")
	x := w.server.newExchange(&table()[i], http)
	cutOff := make(chan struct{})
	go func() { // the request is over once eight calls hang
		defer close(cutOff)
		waiting.Wait()
		x.deadline.end()
	}()
	r, err := w.server.answer(x.context(), x)
	w.must(err)
	<-cutOff
	late := readPortfolio(t, r.tail(slices.Clip(r.answer.Head()), r.cacheStatus, x.id))
	codes := late.codes()
	if most.Load() != portfolioWorkers || codes[openapi.CodeUpstreamUnavailable] != len(late.Data.Rows)-codes[""]-1 ||
		late.row(t, w, "Site 019").code() != openapi.CodeUpstreamUnavailable {
		t.Errorf("%d calls at a time, %v", most.Load(), codes)
	}
	if string(late.Data.Totals) != "null" || late.Meta.Source != nil {
		t.Errorf("totals of nothing known are %s", late.Data.Totals)
	}
	close(release)
	w.await(t, "the end of the calls", func() bool { return running.Load() == 0 && !w.server.reports.cache.Filling() })
	w.answerWith(nil)
	before := w.called()
	again := w.portfolio("pro", "limit", "200")
	if codes := again.codes(); codes[openapi.CodeUpstreamUnavailable] != 2 { // forbidden and disconnected
		t.Errorf("later: %v", codes)
	}
	live := int64(len(sites)) + 6 + 1
	if calls := w.called() - before; calls != live-portfolioWorkers && calls != live-portfolioWorkers+1 { // the forbidden one may be among the first
		t.Errorf("going on took %d calls, want those of %d without the first %d", calls, live, portfolioWorkers)
	}
}
