package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// A portfolioAnswer is an answer of /v1/portfolio, with figures as they are written.
type portfolioAnswer struct {
	Data struct {
		Rows             []portfolioEntry
		Totals, Previous json.RawMessage
	}
	Meta struct {
		RowCount int `json:"row_count"`
		Limit    int
		Offset   int
		Total    int
		Source   *string
		Cache    string
		Notes    []string
	}
}

type portfolioEntry struct {
	PropertyID       string `json:"property_id"`
	Name             string
	GSCProperty      string `json:"gsc_property"`
	Slug             string
	Totals, Previous json.RawMessage
	ClicksDelta      *int    `json:"clicks_delta"`
	Source           *string `json:"source"`
	StaleReason      *string `json:"stale_reason"`
	Notes            []string
	Error            *struct{ Code, Message string }
}

func (e portfolioEntry) code() string {
	if e.Error == nil {
		return ""
	}
	return e.Error.Code
}

func (w *world) portfolio(key string, query ...string) portfolioAnswer {
	w.t.Helper()
	return readPortfolio(w.t, w.get(key, "/v1/portfolio", query...).ok(w.t.(*testing.T)).body)
}

func readPortfolio(t testing.TB, body []byte) (answer portfolioAnswer) {
	t.Helper()
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// row returns the row of a property of the world.
func (a portfolioAnswer) row(t testing.TB, w *world, property string) portfolioEntry {
	t.Helper()
	i := slices.IndexFunc(a.Data.Rows, func(e portfolioEntry) bool { return e.PropertyID == w.properties[property].ID })
	if i < 0 {
		t.Fatalf("the portfolio lacks %s", property)
	}
	return a.Data.Rows[i]
}

func (a portfolioAnswer) names() (names []string) {
	for _, row := range a.Data.Rows {
		names = append(names, row.Name)
	}
	return names
}

// codes counts the rows by the code of their error, empty for figures.
func (a portfolioAnswer) codes() map[string]int {
	codes := map[string]int{}
	for _, row := range a.Data.Rows {
		codes[row.code()]++
	}
	return codes
}

// called returns how many calls were made so far.
func (w *world) called() int64 { return w.sim.Calls().SearchAnalytics }

// Each property has the figures of its own summary, to the last digit: connected, archived, disconnected, forbidden and empty ones.
func TestPortfolio200EqualsEverySummary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, query := range [][]string{nil, {"compare", "previous_period"}, {"compare", "previous_year", "date_range", "last_7d"},
		{"start_date", "2026-11-01", "end_date", "2026-11-30"}} {
		before := w.called()
		whole := w.portfolio("pro", query...)
		if len(whole.Data.Rows) != len(w.properties)-1 { // without the foreign one
			t.Errorf("%d rows", len(whole.Data.Rows))
		}
		if calls := w.called() - before; query == nil && calls != 6+1 || query != nil && calls > 1 { // the forbidden one each time
			t.Errorf("%v took %d calls", query, calls)
		}
		for _, row := range whole.Data.Rows {
			w.wantSummary(row, &whole, query)
		}
		whole.wantTotals(t, len(query) > 0 && query[0] == "compare")
	}
}

// wantSummary compares a row with the property's own summary.
func (w *world) wantSummary(row portfolioEntry, whole *portfolioAnswer, query []string) (status int) {
	w.t.Helper()
	status, body := w.fetch("/v1/properties/"+row.PropertyID+"/summary", query, "max-age=0")
	var own struct {
		Data  struct{ Totals, Previous json.RawMessage }
		Error struct{ Code, Message string }
		Meta  struct {
			Source      *string
			StaleReason *string `json:"stale_reason"`
			Notes       []string
		}
	}
	w.must(json.Unmarshal(body, &own))
	for _, raw := range []*json.RawMessage{&own.Data.Totals, &own.Data.Previous} {
		if len(*raw) == 0 {
			*raw = json.RawMessage("null")
		}
	}
	text := func(s *string) string {
		if s == nil {
			return "null"
		}
		return *s
	}
	got := fmt.Sprint(string(row.Totals), string(row.Previous), text(row.Source), text(row.StaleReason), row.code())
	if want := fmt.Sprint(string(own.Data.Totals), string(own.Data.Previous), text(own.Meta.Source), text(own.Meta.StaleReason), own.Error.Code); got != want {
		w.t.Errorf("%s %v has\n%s\nand its summary\n%s", row.GSCProperty, query, got, want)
	}
	for _, note := range own.Meta.Notes {
		if !slices.Contains(row.Notes, note) && !slices.Contains(whole.Meta.Notes, note) {
			w.t.Errorf("%s lacks the note %q", row.GSCProperty, note)
		}
	}
	for _, note := range row.Notes {
		if !slices.Contains(own.Meta.Notes, note) || slices.Contains(whole.Meta.Notes, note) {
			w.t.Errorf("%s has the note %q, the portfolio has %q", row.GSCProperty, note, whole.Meta.Notes)
		}
	}
	return status
}

// wantTotals compares the totals with the sums over all rows, which must be on one page.
func (a portfolioAnswer) wantTotals(t testing.TB, compared bool) {
	t.Helper()
	type figures struct{ Clicks, Impressions, CTR, Position float64 }
	var now, before tally
	read := func(raw json.RawMessage) (f figures) {
		if err := json.Unmarshal(raw, &f); err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, row := range a.Data.Rows {
		if row.Error != nil {
			continue
		}
		f := read(row.Totals)
		now.add(tally{f.Clicks, f.Impressions, f.Position * f.Impressions})
		if !compared {
			continue
		}
		p := read(row.Previous)
		before.add(tally{p.Clicks, p.Impressions, p.Position * p.Impressions})
		if row.ClicksDelta == nil || float64(*row.ClicksDelta) != f.Clicks-p.Clicks {
			t.Errorf("%s: clicks_delta is %v of %v and %v", row.Name, row.ClicksDelta, f.Clicks, p.Clicks)
		}
	}
	check := func(what string, raw json.RawMessage, want tally) {
		f := read(raw)
		if f.Clicks != want.clicks || f.Impressions != want.impressions || !near(f.CTR, ratio(want.clicks, want.impressions)) ||
			!near(f.Position, ratio(want.positions, want.impressions)) {
			t.Errorf("%s: %s, want %+v", what, raw, want)
		}
	}
	check("totals", a.Data.Totals, now)
	if compared {
		check("previous", a.Data.Previous, before)
	} else if string(a.Data.Previous) != "null" {
		t.Errorf("previous is %s", a.Data.Previous)
	}
}

// addSites adds properties of the pro account for sites that the upstream has, and returns their names.
func (w *world) addSites(sites []gscsim.Site) {
	w.t.Helper()
	for i, site := range sites {
		name := fmt.Sprintf("Site %03d", i)
		added, err := w.store.AddProperty(context.Background(), sqlstore.PropertySpec{Connection: w.properties["prefix"].Connection.ID, Site: site.URL,
			DisplayName: name, PermissionLevel: "siteOwner"})
		w.must(err)
		w.properties[name] = added
	}
}

func smallSites(n int) (sites []gscsim.Site) {
	for i := range n {
		sites = append(sites, gscsim.Site{URL: fmt.Sprintf("sc-domain:site%03d.example", i), Queries: 5, Pages: 3})
	}
	return sites
}

// sorted returns the rows in an order, as the contract of the endpoint defines it.
func sorted(rows []portfolioEntry, order string) []string {
	by, descending := strings.CutPrefix(order, "-")
	figure := func(e portfolioEntry) float64 {
		var f map[string]any
		_ = json.Unmarshal(e.Totals, &f)
		if by == "clicks_delta" {
			return float64(*e.ClicksDelta)
		}
		value, _ := f[by].(float64)
		return value
	}
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b portfolioEntry) int {
		c := 0
		switch {
		case (a.Error == nil) != (b.Error == nil):
			if a.Error == nil {
				return -1
			}
			return 1
		case a.Error != nil:
		case by == "name":
			c = cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
		default:
			c = cmp.Compare(figure(a), figure(b))
		}
		if descending {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.PropertyID, b.PropertyID))
	})
	return portfolioAnswer{Data: struct {
		Rows             []portfolioEntry
		Totals, Previous json.RawMessage
	}{Rows: rows}}.names()
}

func TestPortfolio200OrdersAndPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	whole := w.portfolio("pro", "compare", "previous_period", "limit", "200")
	for _, by := range []string{"clicks", "impressions", "ctr", "position", "name", "clicks_delta"} {
		for _, order := range []string{by, "-" + by} {
			want := sorted(whole.Data.Rows, order)
			var pages []string
			for offset := 0; offset <= len(want); offset += 4 {
				page := w.portfolio("pro", "compare", "previous_period", "order_by", order, "limit", "4", "offset", fmt.Sprint(offset))
				if m := page.Meta; m.Limit != 4 || m.Offset != offset || m.Total != len(want) || m.RowCount != len(page.Data.Rows) {
					t.Errorf("meta is %+v", m)
				}
				if string(page.Data.Totals) != string(whole.Data.Totals) || string(page.Data.Previous) != string(whole.Data.Previous) {
					t.Errorf("a page has other totals: %s", page.Data.Totals)
				}
				pages = append(pages, page.names()...)
			}
			if !slices.Equal(pages, want) {
				t.Errorf("%s is\n%q, want\n%q", order, pages, want)
			}
		}
	}
	if got, want := whole.names(), sorted(whole.Data.Rows, "-clicks"); !slices.Equal(got, want) {
		t.Errorf("the default order is %q, want %q", got, want)
	}
	without := w.portfolio("pro", "order_by", "-clicks_delta")
	if got, want := without.names(), sorted(without.Data.Rows, "name"); !slices.Equal(got, want) || !strings.Contains(strings.Join(without.Meta.Notes, ""), "Without compare") {
		t.Errorf("the order without compare is %q, with the notes %q", got, without.Meta.Notes)
	}
	if beyond := w.portfolio("pro", "offset", "1000"); len(beyond.Data.Rows) != 0 || beyond.Meta.Total != len(whole.Data.Rows) {
		t.Errorf("beyond the last row: %+v", beyond.Meta)
	}
}

func TestPortfolio400(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ name, value, code string }{
		{"filters", "[]", codeUnsupported}, {"property", "main", codeUnsupported},
		{"limit", "0", codeValidation}, {"limit", "201", codeValidation}, {"limit", "x", codeValidation}, {"limit", "", codeValidation},
		{"offset", "-1", codeValidation}, {"offset", "1.5", codeValidation},
		{"order_by", "key", codeValidation}, {"order_by", "--clicks", codeValidation}, {"order_by", "Clicks", codeValidation},
		{"compare", "year", codeValidation}, {"date_range", "last_8d", codeValidation},
		{"start_date", "2026-11-01", codeValidation}, {"end_date", "2026-02-30", codeValidation},
	} {
		w.get("pro", "/v1/portfolio", c.name, c.value).want(t, http.StatusBadRequest, c.code, c.name)
	}
	w.get("pro", "/v1/portfolio", "start_date", "2020-01-01", "end_date", "2020-01-31").want(t, http.StatusBadRequest, codeTooOld, "2023-11-20")
	w.get("pro", "/v1/portfolio", "start_date", "2024-01-01", "end_date", "2024-01-31", "compare", "previous_year").want(t, http.StatusBadRequest, codeTooOld)
	if calls := w.called(); calls != 0 {
		t.Errorf("%d calls", calls)
	}
}

func TestPortfolio401And403(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.get("", "/v1/portfolio").want(t, http.StatusUnauthorized, policy.CodeInvalidKey)
	w.get("revoked", "/v1/portfolio").want(t, http.StatusUnauthorized, policy.CodeRevokedKey)
	w.get("properties_only", "/v1/portfolio").want(t, http.StatusForbidden, policy.CodeScope, "performance:read")
	w.get("trial", "/v1/portfolio").want(t, http.StatusForbidden, policy.CodeNoAccess)
	w.get("performance_only", "/v1/portfolio", "limit", "1").ok(t)
}

// A key has the properties that it can reach, and no others.
func TestPortfolio200OfOneWorkspaceAndOfNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if own := w.portfolio("workspace_scoped"); len(own.Data.Rows) != 1 || own.row(t, w, "main").Error != nil || own.Meta.Total != 1 {
		t.Errorf("a key of one workspace has %q", own.names())
	}
	if other := w.portfolio("other"); len(other.Data.Rows) != 1 || other.row(t, w, "foreign").Error != nil {
		t.Errorf("another account has %q", other.names())
	}
	ctx := context.Background()
	_, err := w.store.AddWorkspace(ctx, "Pro", "Void")
	w.must(err)
	_, err = w.store.AddPerson(ctx, "Pro", "void@example.com", []string{"Void"})
	w.must(err)
	key, hash := policy.NewKey("sara")
	_, err = w.store.CreateKey(ctx, keySpec("void@example.com", "void", hash, nil), func(string) int { return 10 })
	w.must(err)
	w.keys["void"] = key
	void := w.portfolio("void", "compare", "previous_year")
	const zeros = `"clicks":0,"impressions":0,"ctr":0,"position":0}`
	if void.Data.Rows == nil || len(void.Data.Rows) != 0 || string(void.Data.Totals) != "{"+zeros || void.Meta.Total != 0 || void.Meta.Source != nil ||
		string(void.Data.Previous) != `{"start_date":"2025-10-23","end_date":"2025-11-19",`+zeros {
		t.Errorf("without properties: %+v %s %s", void, void.Data.Totals, void.Data.Previous)
	}
}

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
		if row.code() != codeUpstreamUnavailable || string(row.Totals) != "null" || row.Source != nil || row.ClicksDelta != nil || row.Notes == nil {
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
	if calls, failed := w.called()-before, int64(got.codes()[codeUpstreamUnavailable]); calls > failed-1 {
		t.Errorf("going on took %d calls after %d failures", calls, failed)
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
	start, end := *dateOf(w.t, first), *dateOf(w.t, last)
	var days []archive.Day
	for day := start; day <= end; day++ {
		var b translate.RowsBuilder
		b.Add([]byte(day.String()), translate.Metrics{Clicks: 10, Impressions: 100, CTR: 0.1, Position: 2.5})
		days = append(days, archive.Day{Date: day, Dimension: translate.ByDate, Final: true, Rows: b.Rows()})
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
	if row.Error != nil || *row.Source != "stored" || row.StaleReason != nil || string(row.Totals) != `{"clicks":280,"impressions":2800,"ctr":0.1,"position":2.5}` {
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
	wantText(t, "the note of the late site", strings.Join(got.row(t, w, "Site 000").Notes, " "), "Search Console has not published 2026-11-18 and 2026-11-19 yet.")
	if notes := got.row(t, w, "main").Notes; len(notes) != 0 {
		t.Errorf("main has the notes %q", notes)
	}
	wantText(t, "the notes of all", strings.Join(got.Meta.Notes, " "), "end_date 2026-11-25 was moved back to 2026-11-19")
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
	c := w.server.newCall(&table()[i], http, w.server.readHeader(http))
	cutOff := make(chan struct{})
	go func() { // the request is over once eight calls hang
		defer close(cutOff)
		waiting.Wait()
		c.deadline.end()
	}()
	r, err := w.server.answer(c.context(), c)
	w.must(err)
	<-cutOff
	late := readPortfolio(t, r.tail(slices.Clip(r.answer.Head()), r.cacheStatus, c.id))
	codes := late.codes()
	if most.Load() != portfolioWorkers || codes[codeUpstreamUnavailable] != len(late.Data.Rows)-codes[""]-1 || late.row(t, w, "Site 019").code() != codeUpstreamUnavailable {
		t.Errorf("%d calls at a time, %v", most.Load(), codes)
	}
	if string(late.Data.Totals) != "null" || late.Meta.Source != nil {
		t.Errorf("totals of nothing known are %s", late.Data.Totals)
	}
	close(release)
	w.await(t, "the end of the calls", func() bool { return running.Load() == 0 && !w.server.cache.Filling() })
	w.answerWith(nil)
	before := w.called()
	again := w.portfolio("pro", "limit", "200")
	if codes := again.codes(); codes[codeUpstreamUnavailable] != 2 { // forbidden and disconnected
		t.Errorf("later: %v", codes)
	}
	live := int64(len(sites)) + 6 + 1
	if calls := w.called() - before; calls != live-portfolioWorkers && calls != live-portfolioWorkers+1 { // the forbidden one may be among the first
		t.Errorf("going on took %d calls, want those of %d without the first %d", calls, live, portfolioWorkers)
	}
}
