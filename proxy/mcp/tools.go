package mcp

import (
	"context"
	"net/url"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"sara/translate"
)

// A tool is what an agent can call.
type tool struct {
	name, title, about string
	params             []param
	// path returns the REST path of a tool that stands for one request.
	path func(*arguments) string
	// parts returns the requests of a tool that stands for several; nil for all others.
	parts func(*arguments) []step
	// shares means that the text has the totals of the days that the rows are of, if they are at hand.
	shares bool
	// lists are the paths in the result of the lists whose rows may be cut.
	lists []string
	// older is what to call, with start_date and end_date, for the rows that a cut list of days lacks: a tool, or "again" for the same one.
	// "": no tool has them.
	older string
	// single are the tools of the single lists of a result that stands for several: for the rows that a cut list lacks. "": no tool has them.
	single string
	// columns are those of the text's tables; nil for all members of a row.
	columns []string
}

// The most rows of a table, and how many there are by default: 250 rows of usual length fit a result.
const (
	mostRows  = 250
	usualRows = 25
)

// again is the value of older for the tool itself.
const again = "again"

// tools returns all tools, in the order of tools/list.
func tools() []tool {
	return slices.Concat(accountTools(), []tool{overview()}, performanceTools(), indexingTools(), []tool{siteContext()})
}

func accountTools() []tool {
	return []tool{
		{name: "list_properties", title: "List sites", params: atMost(of(translate.Properties()), 200, 50), lists: []string{"data.rows"},
			about: "The sites that the key can read, by name, with the ids and slugs that the other tools take.",
			path:  func(*arguments) string { return "/v1/properties" }},
		{name: "get_account", title: "Key, plan and usage",
			about: "Scopes, limits and what is used up of them. Call it before many calls, or after a refusal.",
			path:  func(*arguments) string { return "/v1/me" }},
	}
}

func performanceTools() []tool {
	withProperty := func(e translate.Endpoint) []param { return append([]param{property()}, of(e)...) }
	return []tool{
		{name: "query_performance", title: "Top queries, pages, countries or devices", lists: []string{"data.rows"}, shares: true,
			params: atMost(append([]param{property(), dimension("query", "page", "country", "device")}, of(translate.Breakdown())...), mostRows, usualRows),
			about: "Rows by clicks (or order_by) with clicks, impressions, ctr (a fraction) and average position (1 is best). " +
				"Rare queries are withheld, and truncated_by clicks means that rows with fewer clicks exist: a missing key is not zero, " +
				"and rows do not add up to totals. Costs 1 request and up to 2 live calls.",
			path: func(a *arguments) string { return a.below(plural(a.dimension)) }},
		{name: "get_timeseries", title: "Figures by day", params: withProperty(translate.Timeseries()), lists: []string{"data.rows"}, older: again,
			about: "One row for each known day. A day that is left out is not published or not archived, which is not zero; a note names it.",
			path:  func(a *arguments) string { return a.below("timeseries") }},
		{name: "compare_periods", title: "Totals versus an earlier period",
			params: byDefault(withProperty(translate.Summary()), "compare", "previous_period"),
			about:  "Totals of a period and of one before, over the days that both have. Totals include withheld queries.",
			path:   func(a *arguments) string { return a.below("summary") }},
		{name: "find_movers", title: "Largest gains and losses", lists: []string{"data.gainers", "data.losers"},
			params: append([]param{property(), dimension("query", "page")}, of(translate.Movers())...),
			about: "Which queries or pages gained and lost most clicks since the previous period: " +
				"the usual answer to why clicks changed. Check the notes for anomalies first. Costs 1 request and up to 2 live calls.",
			path: func(a *arguments) string { return a.below("movers/" + plural(a.dimension)) }},
		{name: "portfolio_overview", title: "All sites at once", lists: []string{"data.rows"}, params: atMost(of(translate.Portfolio()), 200, usualRows),
			columns: []string{"name", "property_id", "totals", "previous", "clicks_delta", "stale_reason", "notes", "error"},
			about: "Totals of every site of the key, and with compare their change. A site with an error has unknown figures, " +
				"and is not in the totals. Costs 1 request and up to a live call for each site.",
			path: func(*arguments) string { return "/v1/portfolio" }},
	}
}

func indexingTools() []tool {
	urls := append([]param{property()}, of(translate.IndexedURLs())...)
	for i := range urls {
		urls[i].Description = map[string]string{"coverage_state": "Label in get_indexing", "q": "Text in the URL"}[urls[i].Name]
	}
	return []tool{
		{name: "get_indexing", title: "Index coverage", params: append([]param{property()}, of(translate.Indexing())...),
			lists: []string{"data.breakdown", "data.trend", "data.sitemaps"},
			about: "How many tracked URLs are indexed, and why others are not. Zeros before status ready are not results.",
			path:  func(a *arguments) string { return a.below("indexing") }},
		{name: "list_indexed_urls", title: "Inspected URLs", params: atMost(urls, mostRows, usualRows), lists: []string{"data.rows"},
			about: "The URLs behind a count of get_indexing: by bucket, label, sitemap or text.",
			path:  func(a *arguments) string { return a.below("indexing/urls") }},
	}
}

// below returns a path of the property.
func (a *arguments) below(path string) string {
	return "/v1/properties/" + url.PathEscape(a.property) + "/" + path
}

// plural returns the name of a table by its dimension.
func plural(dimension string) string {
	if dimension == "country" {
		return "countries"
	}
	if dimension == "query" {
		return "queries"
	}
	return dimension + "s"
}

// run answers a call.
func (t *tool) run(ctx context.Context, api API, a *arguments) *sdk.CallToolResult {
	if t.parts != nil {
		return t.runParts(ctx, api, a)
	}
	target := t.path(a)
	if len(a.query) > 0 {
		target += "?" + a.query.Encode()
	}
	answer := api.Get(ctx, target)
	if f := answer.failure(); f != nil {
		return f.result()
	}
	x := extra{requestIDs: []string{answer.RequestID}}
	if t.shares && !a.query.Has("filters") {
		x.totals = api.Totals(ctx, a.property, a.days())
	}
	return t.fit(answer.content(), x)
}

// days returns the parameters that choose the days.
func (a *arguments) days() url.Values {
	days := url.Values{}
	for _, name := range []string{"date_range", "start_date", "end_date"} {
		if a.query.Has(name) {
			days.Set(name, a.query.Get(name))
		}
	}
	return days
}
