package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"sara/policy"
	"sara/proxy/cache"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// maxToolResult is how many characters of a result common clients take.
const maxToolResult = 40_000

// tool calls a tool, and checks what every result has in common: its size, its text, and that it has the form that tools/list declares.
func (w *world) tool(t testing.TB, key, name string, arguments map[string]any) (content map[string]any, text string, failed bool) {
	t.Helper()
	r := w.modern(key, "tools/call", map[string]any{"name": name, "arguments": arguments})
	result := r.result(t)
	raw, err := json.Marshal(result)
	w.must(err)
	if n := utf8.RuneCount(raw); n >= maxToolResult {
		t.Errorf("%s: the result has %d characters", name, n)
	}
	content, _ = result["structuredContent"].(map[string]any)
	if err := w.outputSchemas(t)[name].Validate(content); err != nil {
		t.Errorf("%s: the result does not have the declared form: %v\n%.500s", name, err, raw)
	}
	blocks, _ := result["content"].([]any)
	for _, block := range blocks {
		part, _ := block.(map[string]any)["text"].(string)
		text += part
	}
	if text == "" || json.Valid([]byte(text)) {
		t.Errorf("%s: the text is no readable form: %.200q", name, text)
	}
	meta, _ := result["_meta"].(map[string]any)
	if id, _ := meta["request_id"].(string); !regexp.MustCompile(`^req_[0-9a-f]{32}$`).MatchString(id) {
		t.Errorf("%s: the request id is %q", name, id)
	}
	failed, _ = result["isError"].(bool)
	if _, isError := content["error"]; isError != failed {
		t.Errorf("%s: isError is %v with the content %.200s", name, failed, raw)
	}
	return content, text, failed
}

// outputSchemas are those of tools/list.
func (w *world) outputSchemas(t testing.TB) map[string]*jsonschema.Resolved {
	t.Helper()
	listed := w.modern("agency", "tools/list", nil).result(t)
	schemas := map[string]*jsonschema.Resolved{}
	for _, listing := range listed["tools"].([]any) {
		tool := listing.(map[string]any)
		raw, err := json.Marshal(tool["outputSchema"])
		w.must(err)
		schema := new(jsonschema.Schema)
		w.must(json.Unmarshal(raw, schema))
		schemas[tool["name"].(string)], err = schema.Resolve(nil)
		w.must(err)
	}
	return schemas
}

// failure calls a tool that must fail with a code, and whose message contains the words.
func (w *world) toolFails(t *testing.T, key, name string, arguments map[string]any, code string, words ...string) map[string]any {
	t.Helper()
	content, text, failed := w.tool(t, key, name, arguments)
	e, _ := content["error"].(map[string]any)
	if !failed || e["code"] != code {
		t.Fatalf("%s %v: %v, want %s", name, arguments, content, code)
	}
	wantMembers(t, name, content["error"], "code message retry_after_seconds")
	for _, word := range words {
		if message, _ := e["message"].(string); !strings.Contains(message, word) || !strings.Contains(text, word) {
			t.Errorf("%s %v: neither message nor text may lack %q: %v %q", name, arguments, word, e["message"], text)
		}
	}
	return e
}

func TestMCP200ToolsList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.modern("pro", "tools/list", nil)
	if n := utf8.RuneCount(r.body); n >= 10_000 {
		t.Errorf("the list of tools has %d characters", n)
	}
	if again := w.modern("agency", "tools/list", nil); string(again.body) != string(r.body) {
		t.Error("the list differs between two requests")
	}
	var names []string
	listed := map[string]map[string]any{} // arguments
	required := map[string]any{}          // their names
	for _, listing := range r.result(t)["tools"].([]any) {
		tool := listing.(map[string]any)
		names = append(names, tool["name"].(string))
		hints, _ := tool["annotations"].(map[string]any)
		for hint, want := range map[string]bool{"readOnlyHint": true, "idempotentHint": true, "destructiveHint": false, "openWorldHint": false} {
			if hints[hint] != want {
				t.Errorf("%s: %s is %v", tool["name"], hint, hints[hint])
			}
		}
		input, _ := tool["inputSchema"].(map[string]any)
		if input["type"] != "object" || input["additionalProperties"] != false || tool["description"] == "" {
			t.Errorf("%s takes %v: %v", tool["name"], input, tool["description"])
		}
		listed[tool["name"].(string)], _ = input["properties"].(map[string]any)
		required[tool["name"].(string)] = input["required"]
	}
	if days := listed["get_indexing"]["days"].(map[string]any); !reflect.DeepEqual(days["enum"], []any{30.0, 90.0, 365.0}) {
		t.Errorf("the values of days are %v", days)
	}
	if trend := listed["get_indexing"]["include_trend"].(map[string]any); trend["type"] != "boolean" {
		t.Errorf("include_trend is %v", trend)
	}
	if !reflect.DeepEqual(required["query_performance"], []any{"property", "dimension"}) || required["get_account"] != nil {
		t.Errorf("the required arguments are %v", required)
	}
	for want := range strings.FieldsSeq("list_properties get_account get_overview query_performance get_timeseries compare_periods find_movers " +
		"portfolio_overview get_indexing list_indexed_urls get_context") {
		if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+want+" ") {
			t.Errorf("no tool %s among %v", want, names)
		}
	}
}

// Every tool that stands for one request gives its data and meta, and its refusals.
func TestMCP200ToolsAnswerAsREST(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pages := w.pages()
	w.discover("main", pages)
	w.inspect("main", pages, true)
	id := w.properties["main"].ID
	filters := []any{map[string]any{"dimension": "query", "operator": "contains", "value": "a"},
		map[string]any{"dimension": "brand", "operator": "equals", "value": "non-brand"}}
	for _, c := range []struct {
		tool, path string // of REST, with its query
		arguments  map[string]any
	}{
		{"list_properties", "/v1/properties?limit=3&offset=2&include_archived=true", map[string]any{"limit": 3, "offset": 2, "include_archived": true}},
		{"query_performance", "/queries?limit=25", map[string]any{"dimension": "query"}},
		{"query_performance", "/queries?limit=7&offset=20", map[string]any{"dimension": "query", "limit": json.RawMessage("7.0"),
			"offset": json.RawMessage("2e1")}},
		{"query_performance", "/pages?limit=7&order_by=-impressions&date_range=last_7d",
			map[string]any{"dimension": "page", "limit": 7, "order_by": "-impressions", "date_range": "last_7d"}},
		{"query_performance", "/countries?limit=25&start_date=2026-11-01&end_date=2026-11-10",
			map[string]any{"dimension": "country", "start_date": "2026-11-01", "end_date": "2026-11-10"}},
		{"query_performance", "/devices?limit=25&filters=" + url.QueryEscape(encoded(w, filters)),
			map[string]any{"dimension": "device", "filters": filters}},
		{"get_timeseries", "/timeseries?date_range=last_90d", map[string]any{"date_range": "last_90d"}},
		{"compare_periods", "/summary?compare=previous_period", map[string]any{}},
		{"compare_periods", "/summary?compare=previous_year&date_range=last_7d", map[string]any{"compare": "previous_year", "date_range": "last_7d"}},
		{"query_performance", "/queries?limit=5&offset=20", map[string]any{"dimension": "query", "limit": 5, "offset": 20}},
		{"portfolio_overview", "/v1/portfolio?limit=4&offset=1&compare=previous_year&order_by=name",
			map[string]any{"limit": 4, "offset": 1, "compare": "previous_year", "order_by": "name"}},
		{"portfolio_overview", "/v1/portfolio?limit=25", map[string]any{}},
		{"find_movers", "/movers/queries", map[string]any{"dimension": "query"}},
		{"find_movers", "/movers/pages?limit=3&min_clicks=2", map[string]any{"dimension": "page", "limit": 3, "min_clicks": 2}},
		{"get_indexing", "/indexing?include_trend=true&days=30", map[string]any{"include_trend": true, "days": 30}},
		{"get_indexing", "/indexing?include_trend=false", map[string]any{"include_trend": false}},
		{"list_indexed_urls", "/indexing/urls?bucket=error&limit=25&sort=url&dir=asc", map[string]any{"bucket": "error", "sort": "url", "dir": "asc"}},
	} {
		w.run(c.tool+c.path, func(t *testing.T) {
			path := c.path
			if !strings.HasPrefix(path, "/v1") {
				path = "/v1/properties/" + id + path
				c.arguments["property"] = id
			}
			rest := w.get("agency", path).ok(t)
			for c.tool == "portfolio_overview" { // on a busy machine, a live call may outlast a request: the figures come meanwhile
				again := w.get("agency", path).ok(t)
				if reflect.DeepEqual(again.data(), rest.data()) {
					break
				}
				rest = again
			}
			content, text, failed := w.tool(t, "agency", c.tool, c.arguments)
			if failed || !reflect.DeepEqual(content["data"], rest.json["data"]) {
				t.Errorf("data is %.300v, REST has %.300v", content, rest.json["data"])
			}
			meta, _ := content["meta"].(map[string]any)
			for name, want := range rest.meta() {
				if got := meta[name]; !reflect.DeepEqual(got, want) && name != "request_id" && name != "cache" {
					t.Errorf("meta.%s is %v, REST has %v", name, got, want)
				}
			}
			for _, row := range rest.rows() {
				if key, ok := row.(map[string]any)["key"].(string); ok && !strings.Contains(text, key) {
					t.Errorf("the text lacks the row %q", key)
				}
			}
			if note := notes(rest); note != "" && !strings.Contains(text, strings.Split(note, "\n")[0]) {
				t.Errorf("the text lacks the note %q", note)
			}
		})
	}
	w.wantNoSecrets()
}

func encoded(w *world, value any) string {
	w.t.Helper()
	text, err := json.Marshal(value)
	w.must(err)
	return string(text)
}

func TestMCP200BadArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		code      string
		words     string
	}{
		{"query_performance", map[string]any{"property": "main", "dimension": "query", "limitt": 3}, translate.CodeUnsupportedParameter, "limitt"},
		{"query_performance", map[string]any{"property": "main", "dimension": "query", "limit": "many"}, translate.CodeValidation,
			`limit must be an integer, not "many"`},
		{"query_performance", map[string]any{"property": "main", "dimension": "query", "limit": 251}, translate.CodeValidation,
			"limit must be from 1 to 250, not 251"},
		{"query_performance", map[string]any{"property": "main", "dimension": "query", "limit": 0}, translate.CodeValidation,
			"limit must be from 1 to 250, not 0"},
		{"query_performance", map[string]any{"property": "main", "dimension": "query", "limit": 2.5}, translate.CodeValidation, "limit"},
		{"query_performance", map[string]any{"property": "main", "dimension": "query", "offset": 1e30}, translate.CodeValidation,
			"offset must be an integer, not 1e+30"},
		{"query_performance", map[string]any{"property": "main", "dimension": "date"}, translate.CodeValidation,
			`dimension must be one of query, page, country, device, not "date"`},
		{"query_performance", map[string]any{"property": "main"}, translate.CodeValidation, "dimension"},
		{"query_performance", map[string]any{"dimension": "query"}, translate.CodeValidation, "property"},
		{"query_performance", map[string]any{"property": 7, "dimension": "query"}, translate.CodeValidation, "property must be a string, not 7"},
		{"query_performance", map[string]any{"property": "main", "dimension": "query", "filters": "x"}, translate.CodeValidation,
			`filters must be an array of filter objects, not "x"`},
		{"query_performance", map[string]any{"property": "main", "dimension": "query", "filters": []any{map[string]any{"dimension": "nothing"}}},
			translate.CodeValidation, "filters"},
		{"get_timeseries", map[string]any{"property": "main", "date_range": "yesterday"}, translate.CodeValidation, "date_range"},
		{"get_timeseries", map[string]any{"property": "main", "start_date": "2026-13-01", "end_date": "2026-11-01"},
			translate.CodeValidation, "start_date"},
		{"get_overview", map[string]any{"property": "main", "date_range": "yesterday"}, translate.CodeValidation, "date_range"},
		{"compare_periods", map[string]any{"property": "main", "compare": "next_year"}, translate.CodeValidation, "compare"},
		{"find_movers", map[string]any{"property": "main", "dimension": "country"}, translate.CodeValidation, "dimension"},
		{"get_indexing", map[string]any{"property": "main", "include_trend": "yes"}, translate.CodeValidation,
			`include_trend must be true or false, not "yes"`},
		{"get_timeseries", map[string]any{"property": "main", "x": 1}, translate.CodeUnsupportedParameter,
			`get_timeseries has no argument "x"; it has property, date_range,`},
		{"get_account", map[string]any{"x": 1}, translate.CodeUnsupportedParameter, "it has none"},
		{"get_timeseries", map[string]any{"property": "../me"}, policy.CodeNotFound, "list_properties"},
		{"get_timeseries", map[string]any{"property": w.properties["foreign"].ID}, policy.CodeNotFound, "list_properties"},
	} {
		w.toolFails(t, "pro", c.tool, c.arguments, c.code, c.words)
	}
	w.toolFails(t, "indexing_only", "get_timeseries", map[string]any{"property": "main"}, policy.CodeScope, "performance:read")
}

// A call is charged as its requests, and a refusal says when to come back.
func TestMCP200Charges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		requests  int
	}{
		{"get_account", map[string]any{}, 1},
		{"query_performance", map[string]any{"property": "main", "dimension": "query"}, 1},
		{"get_overview", map[string]any{"property": "main"}, 5},
		{"get_context", map[string]any{"property": "main"}, 3},
	} {
		before := w.get("pro", "/v1/me").ok(t).data()["usage"].(map[string]any)["requests_today"].(float64)
		w.tool(t, "pro", c.tool, c.arguments)
		after := w.get("pro", "/v1/me").ok(t).data()["usage"].(map[string]any)["requests_today"].(float64)
		if charged := int(after-before) - 1; charged != c.requests {
			t.Errorf("%s is charged as %d requests, want %d", c.tool, charged, c.requests)
		}
	}
	log := w.logged()
	within := regexp.MustCompile(`"operation":"listBrandTerms","message":"(req_[0-9a-f]{32})"`).FindStringSubmatch(log)
	if within == nil {
		t.Fatalf("the log does not name the message of a request: %s", log)
	}
	if n := strings.Count(log, `"message":"`+within[1]+`"`); n != 3 {
		t.Errorf("%d lines of the log name the message of get_context, want 3", n)
	}
	if !regexp.MustCompile(`"request_id":"` + within[1] + `","operation":"/mcp"[^\n]*"key":"`).MatchString(log) {
		t.Errorf("the message %s has no line with its key", within[1])
	}
	for _, want := range []string{`"operation":"/mcp"`, `"operation":"getSummary"`, `"operation":"listQueries"`, `"operation":"listBrandTerms"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	w.wantNoSecrets()
}

func TestMCP200Denials(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.RequestsPerDay = 1 }))
	w.tool(t, "pro", "get_account", map[string]any{})
	e := w.toolFails(t, "pro", "get_account", map[string]any{}, policy.CodeQuotaExceeded, "1 request")
	if wait := nextUTCMidnight(w.now()).Sub(w.now()); e["retry_after_seconds"] != wait.Seconds() {
		t.Errorf("retry_after_seconds is %v, want %v", e["retry_after_seconds"], wait.Seconds())
	}
	w.toolFails(t, "pro", "get_overview", map[string]any{"property": "main"}, policy.CodeQuotaExceeded)
	w.legacy("pro", "tools/list", nil).result(t) // is still there
}

// The address of the client is that of the message, and of each request that it makes.
func TestMCP200Address(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.TrustedProxyHeader = "X-Forwarded-For" })
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_account","arguments":{}}}`
	for client, status := range map[string]int{"192.0.2.7": http.StatusOK, "192.0.3.7": http.StatusForbidden} {
		r := w.post("Bearer "+w.keys["elsewhere"], body, "X-Forwarded-For", "192.0.2.1, "+client)
		if r.status != status {
			t.Errorf("from %s: %d %s", client, r.status, r.body)
		}
		if status == http.StatusForbidden {
			r.wantError(t, status, policy.CodeAddress)
			continue
		}
		if failed := r.result(t)["isError"]; failed == true {
			t.Errorf("from %s: %s", client, r.body)
		}
	}
	if log := w.logged(); strings.Contains(log, `"client":"127.0.0.1"`) {
		t.Errorf("a request within has another address: %s", log)
	}
}

// An overview is its requests: their figures, and no more upstream calls than they make one after the other.
func TestMCP200Overview(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"2026-11-19", "2026-11-17"} { // all days, and not the last two, which its movers leave out too
		wantOverview(t, late(t, last), late(t, last))
	}
}

// wantOverview compares an overview with its requests in another world, which is equal.
func wantOverview(t *testing.T, w, other *world) {
	t.Helper()
	var content map[string]any
	var text string
	calls := w.calls(func() { content, text, _ = w.tool(t, "pro", "get_overview", map[string]any{"property": "main"}) })
	data, _ := content["data"].(map[string]any)
	wantMembers(t, "data", content["data"], "movers pages previous queries series totals")
	get := func(path string) map[string]any { return other.get("pro", other.path("main", path)).ok(t).data() }
	var summary, queries, pages, series, movers map[string]any
	apart := other.calls(func() {
		summary, series = get("/summary?compare=previous_period"), get("/timeseries")
		queries, pages, movers = get("/queries?limit=10"), get("/pages?limit=10"), get("/movers/queries?limit=10")
	})
	if calls > apart {
		t.Errorf("the overview makes %d upstream calls, its parts %d", calls, apart)
	}
	for name, want := range map[string]any{"totals": summary["totals"], "previous": summary["previous"], "series": series["rows"],
		"queries": queries["rows"], "pages": pages["rows"]} {
		if !reflect.DeepEqual(data[name], want) {
			t.Errorf("%s is %.200v, REST has %.200v", name, data[name], want)
		}
	}
	both, _ := data["movers"].(map[string]any)
	if !reflect.DeepEqual(both["gainers"], movers["gainers"]) || !reflect.DeepEqual(both["losers"], movers["losers"]) {
		t.Errorf("movers are %.200v, REST has %.200v", both, movers)
	}
	clicks := summary["totals"].(map[string]any)["clicks"]
	if !strings.Contains(text, fmt.Sprintf("%.0f clicks", clicks)) || !strings.Contains(text, "%") {
		t.Errorf("the text lacks the totals: %.500s", text)
	}
}

// If a part of an overview fails, the others are there, and the result says which failed.
func TestMCP200OverviewInPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.SearchConsoleCallsPerDay = 1 }))
	w.get("pro", w.path("main", "/timeseries")).ok(t) // takes the only call
	content, text, failed := w.tool(t, "pro", "get_overview", map[string]any{"property": "main"})
	data, _ := content["data"].(map[string]any)
	series, _ := data["series"].([]any)
	if failed || len(series) == 0 || data["pages"] != nil || !strings.Contains(encoded(w, content["meta"]), policy.CodeQuotaExceeded) ||
		!strings.Contains(text, "pages") || strings.Contains(text, "none") { // unknown is not none
		t.Errorf("an overview of which only the series is at hand: %v %.300v\n%s", failed, content, text)
	}
}

// A result is bounded, whatever the keys; it says what is cut, and the next rows are to be had.
func TestMCP200Bounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, limit := range []int{25, 250} {
		_, text, failed := w.tool(t, "pro", "query_performance", map[string]any{"property": w.properties["large"].ID, "dimension": "page", "limit": limit})
		if failed || !strings.Contains(text, "https://") {
			t.Errorf("limit %d: %.300s", limit, text)
		}
	}
	long := func(i int) string {
		return fmt.Sprintf("https://www.example.com/%d/%s", i, strings.Repeat("\"ä<&", 500))
	}
	w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		var rows []string
		for i := range 300 {
			key, _ := json.Marshal(long(i))
			rows = append(rows, fmt.Sprintf(`{"keys":[%s],"clicks":%d,"impressions":1000,"ctr":0.1,"position":3}`, key, 600-i))
		}
		mustWrite(rw, `{"rows":[`+strings.Join(rows, ",")+`]}`)
	})
	w.advance(25 * time.Hour)
	content, text, failed := w.tool(t, "pro", "query_performance",
		map[string]any{"property": w.properties["prefix"].ID, "dimension": "page", "limit": 250})
	rows, _ := content["data"].(map[string]any)["rows"].([]any)
	if failed || len(rows) == 0 || len(rows) >= 250 {
		t.Fatalf("%d rows, failed %v", len(rows), failed)
	}
	for i, row := range rows {
		if key := row.(map[string]any)["key"]; key != long(i) {
			t.Errorf("row %d is not whole: %.100v", i, key)
		}
	}
	if !strings.Contains(encoded(w, content["meta"]), "250") || !strings.Contains(strings.ToLower(text), "cut") ||
		!strings.Contains(text, fmt.Sprintf("\nrows (%d of 250)", len(rows))) {
		t.Errorf("nothing says that rows were cut: %v\n%s", content["meta"], text[max(0, len(text)-500):])
	}
	// Only the first row that was cut comes next, not the one after the page.
	if offsets := regexp.MustCompile(`with offset (\d+)`).FindAllStringSubmatch(text, -1); len(offsets) != 1 ||
		offsets[0][1] != strconv.Itoa(len(rows)) {
		t.Errorf("of %d rows, the next have the offsets %v", len(rows), offsets)
	}
	w.answerWith(nil)
}

// The text warns of what the figures do not show.
func TestMCP200Caveats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	top := map[string]any{"property": w.properties["large"].ID, "dimension": "query", "limit": 5, "order_by": "-impressions",
		"start_date": "2026-10-01", "end_date": "2026-10-28"}
	_, text, _ := w.tool(t, "pro", "query_performance", top)
	if !strings.Contains(strings.ToLower(text), "truncated") && !strings.Contains(text, "not zero") {
		t.Errorf("a sample that was cut: %s", text)
	}
	series, text, _ := w.tool(t, "pro", "get_timeseries", map[string]any{"property": "main", "start_date": "2026-11-10", "end_date": "2026-11-20"})
	list, _ := series["meta"].(map[string]any)["notes"].([]any)
	if len(list) == 0 || !strings.Contains(text, list[0].(string)) {
		t.Errorf("days that are not published: %v\n%s", list, text)
	}
	w.faults(gscsim.Faults{Status: http.StatusServiceUnavailable})
	w.advance(cache.MaxStale - time.Hour)
	w.await(t, "the reason", func() bool {
		result, text, _ := w.tool(t, "pro", "query_performance", top)
		meta, _ := result["meta"].(map[string]any)
		reason, _ := meta["stale_reason"].(string)
		return reason != "" && strings.Contains(text, "\nStale: "+reason+"\n")
	})
}
