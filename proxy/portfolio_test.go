package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/upstream/gscsim"
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
	before := w.called()
	w.advance(freshPortfolio - time.Minute)
	w.portfolio("pro")
	w.await(t, "the end of fills", func() bool { return !w.server.Busy() })
	if calls := w.called() - before; calls > 1 {
		t.Errorf("it took %d calls hours later", calls)
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
	if want := fmt.Sprint(string(own.Data.Totals), string(own.Data.Previous), text(own.Meta.Source), text(own.Meta.StaleReason),
		own.Error.Code); got != want {
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
	if got, want := without.names(), sorted(without.Data.Rows, "name"); !slices.Equal(got, want) ||
		!strings.Contains(strings.Join(without.Meta.Notes, ""), "Without compare") {
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
	w.get("pro", "/v1/portfolio", "start_date", "2024-01-01", "end_date", "2024-01-31", "compare", "previous_year").want(t,
		http.StatusBadRequest, codeTooOld)
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
