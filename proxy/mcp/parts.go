package mcp

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"sara/translate"
)

// A step is a set of requests that are made at the same time, after those of the steps before.
type step []part

// A part is one REST request of a tool that makes several.
type part struct {
	name   string
	target string
	// members are the members of the REST answer's data that the result has, by the path at which it has them.
	members map[string]string
}

// overviewRows is how many rows the tables of an overview have by default.
const overviewRows = 10

// overview is what an agent asks first about a site. The totals come first: their daily series shows the others which days are not
// published, so that all parts are about the same days. The movers come next: they read the wide samples of both periods, which answer
// the queries too, so that all parts make as few upstream calls as REST requests in this order.
func overview() tool {
	params := append([]param{property()}, slices.DeleteFunc(of(translate.Movers()), func(p param) bool { return p.Name == "min_clicks" })...)
	return tool{name: "get_overview", title: "One site at a glance", params: atMost(params, 25, overviewRows),
		lists: []string{"data.series", "data.queries", "data.pages", "data.movers.gainers", "data.movers.losers"}, older: "get_timeseries",
		single: "query_performance or find_movers",
		about: "Totals, the previous period, each day, top queries and pages, and the queries with the largest gains and losses: begin here. " +
			"A part that fails is named in meta.errors, and the others are there. Costs 5 requests and up to 4 live calls.",
		parts: func(a *arguments) []step {
			dates := a.days()
			limited, compared := maps.Clone(dates), maps.Clone(dates)
			limited.Set("limit", a.query.Get("limit"))
			compared.Set("compare", "previous_period")
			at := func(path string, query url.Values) string { return a.below(path) + "?" + query.Encode() }
			return []step{
				{{"totals", at("summary", compared), map[string]string{"data.totals": "totals", "data.previous": "previous"}}},
				{{"movers", at("movers/queries", limited), map[string]string{"data.movers.gainers": "gainers", "data.movers.losers": "losers"}}},
				{{"series", at("timeseries", dates), map[string]string{"data.series": "rows"}},
					{"queries", at("queries", limited), map[string]string{"data.queries": "rows"}},
					{"pages", at("pages", limited), map[string]string{"data.pages": "rows"}}},
			}
		}}
}

// siteContext is what people have configured for a site, which figures alone do not show.
func siteContext() tool {
	return tool{name: "get_context", title: "Brand, page groups and annotations", params: append([]param{property()}, of(translate.Annotations())...),
		lists: []string{"data.brand_terms", "data.page_groups", "data.annotations"}, older: again,
		about: "Brand terms and page groups, for the filters brand and page_group, and dated notes of the site's owner: launches, redesigns. " +
			"Costs 3 requests.",
		parts: func(a *arguments) []step {
			rows := func(list string) map[string]string { return map[string]string{"data." + list: "rows"} }
			return []step{{
				{"brand_terms", a.below("brand-terms"), rows("brand_terms")},
				{"page_groups", a.below("page-groups"), rows("page_groups")},
				{"annotations", a.below("annotations") + "?" + a.query.Encode(), rows("annotations")},
			}}
		}}
}

// runParts makes the requests of a tool. If all fail, the result is the first one's error; if some do, it names them.
func (t *tool) runParts(ctx context.Context, api API, a *arguments) *sdk.CallToolResult {
	m := merged{content: []byte(`{"data":{},"meta":{"notes":[],"errors":{}}}`)}
	for _, s := range t.parts(a) {
		answers := make([]Answer, len(s))
		var group sync.WaitGroup
		for i := range s {
			group.Go(func() { answers[i] = s[i].get(ctx, api) })
		}
		group.Wait()
		for i := range s {
			m.add(&s[i], &answers[i])
		}
	}
	if m.succeeded == 0 {
		return m.first.result()
	}
	x := extra{requestIDs: m.requestIDs}
	if series := gjson.GetBytes(m.content, "data.series"); series.IsArray() {
		totals := totalsOf(series)
		if m.complete(totals); gjson.GetBytes(m.content, "data.totals").IsObject() {
			x.totals = totals
		}
	}
	return t.fit(m.content, x)
}

// totalsOf returns the totals of all days of a series in JSON, as a summary that does not compare has them.
func totalsOf(series gjson.Result) []byte {
	var sum translate.Sum
	for _, day := range series.Array() {
		sum.Add(day.Get("clicks").Int(), day.Get("impressions").Int(), day.Get("position").Float())
	}
	m := sum.Metrics()
	return encode(struct {
		Clicks      int64   `json:"clicks"`
		Impressions int64   `json:"impressions"`
		CTR         float64 `json:"ctr"`
		Position    float64 `json:"position"`
	}{m.Clicks, m.Impressions, m.CTR, m.Position})
}

// get makes the request of a part. It runs on a goroutine of its own, where a panic would end the process.
func (p *part) get(ctx context.Context, api API) (a Answer) {
	defer func() {
		if value := recover(); value != nil {
			api.Panicked(ctx, value)
			a = Answer{Status: http.StatusInternalServerError, Body: encode(map[string]any{"error": broken()})}
		}
	}()
	return api.Get(ctx, p.target)
}

// merged is the result of several requests.
type merged struct {
	content    content
	requestIDs []string
	succeeded  int
	first      *failure
}

// add adds the answer of a part. What is missing is null: unknown, not empty.
func (m *merged) add(p *part, a *Answer) {
	m.requestIDs = append(m.requestIDs, a.RequestID)
	f := a.failure()
	for path, member := range p.members {
		raw := "null"
		if found := gjson.GetBytes(a.Body, "data."+member); f == nil && found.Exists() {
			raw = found.Raw
		}
		m.content = set(m.content, path, []byte(raw))
	}
	if f != nil {
		if m.first == nil {
			m.first = f
		}
		m.content = set(m.content, "meta.errors."+p.name, encode(f))
		return
	}
	m.succeeded++
	m.addMeta(p, gjson.GetBytes(a.Body, "meta"))
}

// complete adds the totals of a period without a day that can be compared: only the period before is missing then.
func (m *merged) complete(totals []byte) {
	refused := gjson.GetBytes(m.content, "meta.errors.totals")
	if code := refused.Get("code").String(); code != translate.CodeDateRangeTooOld && code != translate.CodeValidation {
		return
	}
	m.content = set(set(m.content, "data.totals", totals), "meta.errors.previous", []byte(refused.Raw))
	var err error
	if m.content, err = sjson.DeleteBytes(m.content, "meta.errors.totals"); err != nil {
		panic("BUG: a path of a result: " + err.Error())
	}
}

// addMeta takes over what the parts have in common, and each note once.
func (m *merged) addMeta(p *part, meta gjson.Result) {
	for _, name := range []string{"property_id", "date_range"} {
		if value := meta.Get(name); value.Exists() {
			m.content = set(m.content, "meta."+name, []byte(value.Raw))
		}
	}
	origin := map[string]any{}
	for _, name := range []string{"source", "stale_reason", "truncated_by", "has_more", "cache", "request_id"} {
		if value := meta.Get(name); value.Exists() {
			origin[name] = value.Value()
		}
	}
	m.content = set(m.content, "meta.parts."+p.name, encode(origin))
	for _, note := range meta.Get("notes").Array() {
		known := slices.ContainsFunc(gjson.GetBytes(m.content, "meta.notes").Array(), func(n gjson.Result) bool { return n.String() == note.String() })
		if !known {
			m.content = set(m.content, "meta.notes.-1", []byte(note.Raw))
		}
	}
}
