package proxy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/proxy/openapi"
	"sara/proxy/upstream/gscsim"
)

// An oracle is a second simulator of the same world. Tests query it directly, to compare the figures of the server with
// figures that did not pass through it.
type oracle struct {
	sim   *gscsim.Server
	token string
}

func (w *world) oracle() *oracle {
	w.t.Helper()
	sim := gscsim.New(gscsim.Config{Seed: 1, Now: w.now, TokenNow: time.Now, Users: users(), Worlds: &theWorlds,
		Quotas: gscsim.Quotas{SearchPerMinute: -1}})
	return &oracle{sim: sim, token: tokenOf(w.t, sim)}
}

// tokenOf gets an access token of the owner from a simulator.
func tokenOf(t testing.TB, sim *gscsim.Server) string {
	t.Helper()
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {"client-owner"}, "client_secret": {"secret-owner"},
		"refresh_token": {"refresh-owner"}}
	request := httptest.NewRequest(http.MethodPost, "/token", strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer := httptest.NewRecorder()
	sim.ServeHTTP(answer, request)
	var grant struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &grant); err != nil {
		t.Fatal(err)
	}
	return grant.AccessToken
}

// A figure is one row of the oracle.
type figure struct {
	Keys        []string `json:"keys"`
	Clicks      float64  `json:"clicks"`
	Impressions float64  `json:"impressions"`
	CTR         float64  `json:"ctr"`
	Position    float64  `json:"position"`
}

// A condition is one upstream filter.
type condition struct {
	Dimension  string `json:"dimension"`
	Operator   string `json:"operator"`
	Expression string `json:"expression"`
}

// ask returns the rows of a site by a dimension, or its totals with an empty one.
func (o *oracle) ask(t testing.TB, site, by, start, end string, limit int, conditions ...condition) []figure {
	t.Helper()
	question := map[string]any{"startDate": start, "endDate": end, "rowLimit": limit}
	if by != "" {
		question["dimensions"] = []string{by}
	}
	if len(conditions) > 0 {
		question["dimensionFilterGroups"] = []any{map[string]any{"filters": conditions}}
	}
	body, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, "/webmasters/v3/sites/"+url.QueryEscape(site)+"/searchAnalytics/query?prettyPrint=false",
		bytes.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+o.token)
	answer := httptest.NewRecorder()
	o.sim.ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		t.Fatalf("the oracle answers %d to %s: %s", answer.Code, body, answer.Body)
	}
	var rows struct{ Rows []figure }
	if err := json.Unmarshal(answer.Body.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	return rows.Rows
}

// total returns the totals of a site, zeros if there are none.
func (o *oracle) total(t testing.TB, site, start, end string, conditions ...condition) figure {
	t.Helper()
	if rows := o.ask(t, site, "", start, end, 1, conditions...); len(rows) == 1 {
		return rows[0]
	}
	return figure{}
}

// rank sorts rows naively by an order_by, ties by ascending key.
func rank(rows []figure, order string) []figure {
	by, descending := strings.CutPrefix(order, "-")
	sorted := slices.Clone(rows)
	slices.SortFunc(sorted, func(a, b figure) int {
		var c int
		switch by {
		case "clicks":
			c = cmp.Compare(a.Clicks, b.Clicks)
		case "impressions":
			c = cmp.Compare(a.Impressions, b.Impressions)
		case "ctr":
			c = cmp.Compare(a.CTR, b.CTR)
		case "position":
			c = cmp.Compare(a.Position, b.Position)
		case "key":
			c = cmp.Compare(a.Keys[0], b.Keys[0])
		}
		if descending {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.Keys[0], b.Keys[0]))
	})
	return sorted
}

// near reports whether two sums are equal except for rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// members lists the names of an object's members, sorted.
func members(value any) string {
	object, ok := value.(map[string]any)
	if !ok {
		return "not an object"
	}
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// wantMembers fails the test unless value is an object of exactly these members.
func wantMembers(t testing.TB, what string, value any, want string) {
	t.Helper()
	if got := members(value); got != want {
		t.Errorf("%s has the members %q, not %q", what, got, want)
	}
}

// The members of a meta, by the kind of endpoint.
const (
	performanceMeta = "cache date_range limit notes property_id request_id row_count source stale_reason total truncated_by"
	metricsMembers  = "clicks ctr impressions position"
)

// wantMetrics compares the four figures of an object with a row of the oracle.
func wantMetrics(t testing.TB, what string, got any, want figure) {
	t.Helper()
	m, _ := got.(map[string]any)
	for name, figure := range map[string]float64{"clicks": want.Clicks, "impressions": want.Impressions, "ctr": want.CTR, "position": want.Position} {
		if value, ok := m[name].(float64); !ok || !near(value, figure) {
			t.Errorf("%s: %s is %v, the upstream has %v", what, name, m[name], figure)
		}
	}
}

// wantRows compares keyed rows with the oracle's, in order.
func wantRows(t testing.TB, what string, got []any, key string, want []figure) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d rows, the upstream has %d", what, len(got), len(want))
		return
	}
	for i := range got {
		row, _ := got[i].(map[string]any)
		if row[key] != want[i].Keys[0] {
			t.Errorf("%s: row %d is %q, the upstream has %q", what, i, row[key], want[i].Keys[0])
			return
		}
		wantMetrics(t, what+" "+want[i].Keys[0], row, want[i])
	}
}

// want fails the test unless the answer is this error, in the envelope, and its message contains the named texts.
func (r response) want(t testing.TB, status int, code string, named ...string) {
	t.Helper()
	if r.status != status || r.code() != code {
		t.Errorf("answers %d %s, want %d %s: %s", r.status, r.code(), status, code, r.body)
		return
	}
	r.wantEnvelope(t)
	message := r.message()
	for _, text := range named {
		if !strings.Contains(message, text) {
			t.Errorf("the message %q does not name %q", message, text)
		}
	}
}

// wantEnvelope checks the properties of every error.
func (r response) wantEnvelope(t testing.TB) {
	t.Helper()
	wantMembers(t, "the answer", r.json, "error success")
	wantMembers(t, "the error", r.json["error"], "code docs_url message request_id")
	failure, _ := r.json["error"].(map[string]any)
	if r.json["success"] != false || failure["message"] == "" || failure["docs_url"] == "" {
		t.Errorf("the envelope lacks something: %s", r.body)
	}
	if id := r.header.Get("X-Request-Id"); id == "" || failure["request_id"] != id {
		t.Errorf("the error has the request id %v, the header %q", failure["request_id"], id)
	}
	retry := r.header.Get("Retry-After")
	needs := r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable
	optional := r.code() == openapi.CodeFilteredUnavailable // of days that are never live
	if needs != (retry != "") && !optional {
		t.Errorf("a %d with Retry-After %q", r.status, retry)
	}
}

func (r response) message() string {
	failure, _ := r.json["error"].(map[string]any)
	message, _ := failure["message"].(string)
	return message
}

// ok fails the test at once unless the answer is a success in the envelope.
func (r response) ok(t testing.TB) response {
	t.Helper()
	if r.status != http.StatusOK {
		t.Fatalf("answers %d: %s", r.status, r.body)
	}
	wantMembers(t, "the answer", r.json, "data meta success")
	if id := r.header.Get("X-Request-Id"); r.json["success"] != true || id == "" || r.meta()["request_id"] != id {
		t.Errorf("success %v, request id %v, header %q", r.json["success"], r.meta()["request_id"], id)
	}
	return r
}

// wantPerformanceMeta checks the meta of a live answer.
func (w *world) wantPerformanceMeta(t testing.TB, r response, property, start, end, preset string) {
	t.Helper()
	m := r.meta()
	want := performanceMeta
	if _, isTable := r.data()["dimension"]; isTable && r.data()["rows"] != nil {
		want = strings.Replace(want, "limit", "has_more limit", 1)
	}
	wantMembers(t, "meta", m, want)
	dates := map[string]any{"start_date": start, "end_date": end, "preset": preset}
	got, _ := m["date_range"].(map[string]any)
	wantMembers(t, "date_range", got, "end_date preset start_date")
	for name, value := range dates {
		if got[name] != value {
			t.Errorf("date_range.%s is %v, not %v", name, got[name], value)
		}
	}
	if _, isList := m["notes"].([]any); !isList {
		t.Errorf("notes is %v, not a list", m["notes"])
	}
	if m["property_id"] != w.properties[property].ID || m["source"] != "live" || m["stale_reason"] != nil || m["total"] != nil {
		t.Errorf("meta is %v", m)
	}
	if m["cache"] != r.header.Get("X-Cache") {
		t.Errorf("meta.cache is %v, X-Cache %q", m["cache"], r.header.Get("X-Cache"))
	}
}

// path returns the path of a property's endpoint.
func (w *world) path(property, endpoint string) string {
	return "/v1/properties/" + w.properties[property].ID + endpoint
}

// mustWrite answers with a JSON body. Write errors are ignored: the client may have disconnected.
func mustWrite(rw http.ResponseWriter, body string) {
	rw.Header().Set("Content-Type", "application/json")
	_, _ = rw.Write([]byte(body))
}

func notes(r response) string {
	list, _ := r.meta()["notes"].([]any)
	text := make([]string, len(list))
	for i := range list {
		text[i], _ = list[i].(string)
	}
	return strings.Join(text, "\n")
}
