package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/policy"
	"sara/proxy/mcp"
	"sara/proxy/openapi"
	"sara/translate"
)

// modern is the revision of the protocol without initialize.
const modern = "2026-07-28"

// An rpc is an answer of /mcp: HTTP's part, and the JSON-RPC message, nil if the body is none.
type rpc struct {
	status int
	header http.Header
	body   []byte
	json   map[string]any
}

// post sends a body to /mcp with an Authorization header, none if it is empty, and further headers as name, value pairs.
func (w *world) post(authorization, body string, headers ...string) rpc {
	w.t.Helper()
	return w.send(http.MethodPost, "/mcp", authorization, body, headers...)
}

func (w *world) send(method, path, authorization, body string, headers ...string) rpc {
	w.t.Helper()
	request, err := http.NewRequest(method, w.base+path, strings.NewReader(body))
	w.must(err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	w.must(err)
	defer func() { w.must(answer.Body.Close()) }()
	r := rpc{status: answer.StatusCode, header: answer.Header}
	r.body, err = io.ReadAll(answer.Body)
	w.must(err)
	_ = json.Unmarshal(r.body, &r.json) // what is no JSON stays nil
	return r
}

// legacy sends a request as clients of the older revisions do.
func (w *world) legacy(key, method string, params any) rpc {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	w.must(err)
	return w.post("Bearer "+w.keys[key], string(body), "MCP-Protocol-Version", "2025-11-25")
}

// modern sends a request as clients of the newest revision do.
func (w *world) modern(key, method string, params map[string]any, headers ...string) rpc {
	w.t.Helper()
	whole := map[string]any{"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": modern,
		"io.modelcontextprotocol/clientCapabilities": map[string]any{}}}
	maps.Copy(whole, params)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": whole})
	w.must(err)
	all := []string{"MCP-Protocol-Version", modern, "Mcp-Method", method}
	if name, ok := params["name"].(string); ok {
		all = append(all, "Mcp-Name", name)
	}
	return w.post("Bearer "+w.keys[key], string(body), append(all, headers...)...)
}

// result returns the result of a request, which must have one.
func (r rpc) result(t testing.TB) map[string]any {
	t.Helper()
	result, ok := r.json["result"].(map[string]any)
	if r.status != http.StatusOK || !ok {
		t.Fatalf("%d without a result: %s", r.status, r.body)
	}
	return result
}

// wantError checks a refusal before the message was read: the envelope of the REST API.
func (r rpc) wantError(t testing.TB, status int, code string) {
	t.Helper()
	response(r).want(t, status, code)
}

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func TestMCP401(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unknown, _ := policy.NewKey("sara")
	for name, c := range map[string]struct{ authorization, code string }{
		"no key":         {"", policy.CodeInvalidKey},
		"another scheme": {"Basic " + w.keys["pro"], policy.CodeInvalidKey},
		"an unknown key": {"Bearer " + unknown, policy.CodeInvalidKey},
		"a revoked key":  {"Bearer " + w.keys["revoked"], policy.CodeRevokedKey},
		"an expired key": {"Bearer " + w.keys["expired"], policy.CodeExpiredKey},
	} {
		w.run(name, func(t *testing.T) {
			r := w.post(c.authorization, listTools)
			r.wantError(t, http.StatusUnauthorized, c.code)
			if got := r.header.Values("Www-Authenticate"); !slices.Equal(got, []string{"Bearer"}) {
				t.Errorf("WWW-Authenticate is %q: a client would look for OAuth", got)
			}
		})
	}
	// Unknown keys count at their address, as everywhere.
	for range 60 {
		if r := w.post("Bearer "+unknown, listTools); r.status == http.StatusTooManyRequests {
			r.wantError(t, http.StatusTooManyRequests, policy.CodeRateLimited)
			return
		}
	}
	t.Error("an address can try unknown keys without a limit")
}

// A revoked key is refused at once on the replica that revoked it, also for what is charged to nothing.
func TestMCP401Revoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.legacy("agency", "tools/list", nil).result(t)
	_, err := w.store.RevokeKey(t.Context(), w.keyIDs["agency"])
	w.must(err)
	w.advance(time.Second)
	w.legacy("agency", "tools/list", nil).wantError(t, http.StatusUnauthorized, policy.CodeRevokedKey)
}

func TestMCPWellKnown404(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"oauth-protected-resource", "oauth-protected-resource/mcp", "oauth-authorization-server",
		"oauth-authorization-server/mcp", "openid-configuration", "openid-configuration/mcp"} {
		for _, key := range []string{"", "pro"} {
			w.get(key, "/.well-known/"+path).want(t, http.StatusNotFound, policy.CodeNotFound)
		}
	}
	w.get("", "/mcp/.well-known/openid-configuration").want(t, http.StatusNotFound, policy.CodeNotFound)
}

// A page of another site must not reach the endpoint through a person's browser, not even by a name that it points to this machine.
func TestMCP403Origin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.CORSOrigins = []string{"https://app.example.net"} })
	local := strings.TrimPrefix(w.base, "http://")
	for _, c := range []struct {
		host, origin string
		status       int
	}{
		{local, "", 200}, {"api.example.com", "", 200}, {"API.example.com:443", "", 200}, {"localhost:8080", "", 200}, {"[::1]:8080", "", 200},
		{local, "http://" + local, 200}, {"api.example.com", "http://api.example.com", 200},
		{local, "https://app.example.net", 200}, {"evil.example", "https://app.example.net", 403}, {local, "http://app.example.net", 403},
		{local, "https://evil.example", 403}, {local, "null", 403}, {"api.example.com", "http://api.example.com.evil.example", 403},
		{"api.example.com", "http://localhost:3000", 403}, {"localhost:8080", "http://127.0.0.1:3000", 200},
		{"evil.example", "", 403}, {"evil.example", "http://evil.example", 403}, {"localhost.evil.example", "", 403},
		{"api.example.com.evil.example", "", 403},
		// The same hosts, written as absolute names of the DNS.
		{"api.example.com.", "", 200}, {"api.example.com.:443", "http://api.example.com.", 200}, {"localhost.:8080", "", 200},
		{"api.example.com", "http://api.example.com.", 200}, {"api.example.com..", "", 403}, {"evil.example.", "", 403}, {".", "", 403},
		{"api.example.com.", "http://evil.example.", 403},
	} {
		headers := []string{"Host", c.host}
		if c.origin != "" {
			headers = append(headers, "Origin", c.origin)
		}
		r := w.post("Bearer "+w.keys["pro"], listTools, headers...)
		if r.status != c.status {
			t.Errorf("Host %s, Origin %q: %d, want %d: %.200s", c.host, c.origin, r.status, c.status, r.body)
		}
		if r.status == http.StatusForbidden && strings.Contains(string(r.body), "tools") {
			t.Errorf("Host %s, Origin %q gets %.200s", c.host, c.origin, r.body)
		}
	}
}

func TestMCP405(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} {
		r := w.send(method, "/mcp", "Bearer "+w.keys["pro"], "")
		r.wantError(t, http.StatusMethodNotAllowed, openapi.CodeMethodNotAllowed)
		if got := r.header.Get("Allow"); got != "POST" {
			t.Errorf("%s: Allow is %q", method, got)
		}
	}
	w.get("pro", "/mcp/").want(t, http.StatusNotFound, policy.CodeNotFound)
}

func TestMCP413(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := "Bearer " + w.keys["pro"]
	const most = mcp.MaxBody
	padded := listTools + strings.Repeat(" ", most-len(listTools))
	w.post(key, padded, "X-Long", strings.Repeat("x", 20<<10)).result(t)
	w.post(key, padded+" ").wantError(t, http.StatusRequestEntityTooLarge, openapi.CodeTooLarge)
	c := w.dial() // and the REST API still reads no body
	c.send("POST /v1/me HTTP/1.1\r\nHost: sara\r\nContent-Length: 2048\r\n\r\n" + strings.Repeat("x", 2048))
	if r, there := c.next(http.MethodPost); !there || r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body to /v1/me: %d %s", r.status, r.body)
	}
}

// What is charged to nothing is bounded all the same, and leaves the key its requests.
func TestMCP429Uncharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refused := 0
	for range 1000 {
		r := w.legacy("pro", "tools/list", nil)
		if r.status == http.StatusTooManyRequests {
			refused++
			r.wantError(t, http.StatusTooManyRequests, policy.CodeRateLimited)
			break
		}
		r.result(t)
	}
	if refused == 0 {
		t.Error("a key can list the tools a thousand times within a minute")
	}
	w.wantUsage(t, "pro", 1, 1, 0) // of this very request
}

// Each message of a batch counts, and a body has few of them: else a key could list the tools 200,000 times a minute, in answers of 6 MB.
func TestMCP429Batch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := "Bearer " + w.keys["pro"]
	batch := func(n int) string {
		messages := make([]string, n)
		for i := range messages {
			messages[i] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, i)
		}
		return " [" + strings.Join(messages, ",") + "]"
	}
	w.post(key, batch(mcp.MaxBatch+1)).wantError(t, http.StatusBadRequest, translate.CodeValidation)
	answered := 0
	for range 1000 {
		r := w.post(key, batch(mcp.MaxBatch))
		if r.status == http.StatusTooManyRequests {
			r.wantError(t, http.StatusTooManyRequests, policy.CodeRateLimited)
			break
		}
		var answers []any
		if err := json.Unmarshal(r.body, &answers); r.status != http.StatusOK || err != nil || len(answers) != mcp.MaxBatch {
			t.Fatalf("a batch: %d %v %s", r.status, err, r.body)
		}
		answered += mcp.MaxBatch
	}
	if answered == 0 || answered >= 1000 {
		t.Errorf("%d messages in batches are answered", answered)
	}
}

// Both eras on one path: clients that begin with initialize, and those whose every request says the revision.
func TestMCP200Eras(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for version, answered := range map[string]string{"2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25", "1999-01-01": "2025-11-25"} {
		r := w.post("Bearer "+w.keys["pro"], fmt.Sprintf(`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":%q,"capabilities":{},
			"clientInfo":{"name":"test","version":"1"}}}`, version))
		if got := r.result(t)["protocolVersion"]; got != answered && version != "1999-01-01" {
			t.Errorf("initialize with %s answers %v", version, got)
		}
		if r.header.Get("Mcp-Session-Id") != "" || r.json["id"] != "a" {
			t.Errorf("initialize answers with a session, or another id: %v %v", r.header, r.json["id"])
		}
		wantCapabilities(t, r.result(t))
	}
	if r := w.post("Bearer "+w.keys["pro"], `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		"MCP-Protocol-Version", "2025-11-25"); r.status != http.StatusAccepted || len(r.body) > 0 {
		t.Errorf("a notification: %d %s", r.status, r.body)
	}
	w.legacy("pro", "ping", nil).result(t)

	discovered := w.modern("pro", "server/discover", nil)
	wantCapabilities(t, discovered.result(t))
	for _, method := range []string{"server/discover", "tools/list", "prompts/list"} {
		r := w.modern("pro", method, nil)
		result := r.result(t)
		if result["resultType"] != "complete" || result["cacheScope"] != "private" || r.header.Get("Content-Type") != "application/json" ||
			r.header.Get("Cache-Control") != "private, no-store" {
			t.Errorf("%s: %v, %v", method, r.header, result["cacheScope"])
		}
		if ttl, ok := result["ttlMs"].(float64); !ok || ttl < 0 {
			t.Errorf("%s: ttlMs is %v", method, result["ttlMs"])
		}
	}
	for what, c := range map[string]struct {
		r      rpc
		status int
		code   float64
	}{
		"an unknown method": {w.modern("pro", "tools/nothing", nil), 404, -32601},
		"another name in the header": {w.modern("pro", "tools/call", map[string]any{"name": "get_account", "arguments": map[string]any{}}, "Mcp-Name",
			"list_properties"), 400, -32020},
		"another name in base64": {w.modern("pro", "tools/call", map[string]any{"name": "get_account", "arguments": map[string]any{}}, "Mcp-Name",
			"=?base64?bGlzdF9wcm9wZXJ0aWVz?="), 400, -32020},
		"the name in base64": {w.modern("pro", "tools/call", map[string]any{"name": "get_account", "arguments": map[string]any{"x": 1}}, "Mcp-Name",
			"=?base64?Z2V0X2FjY291bnQ=?="), 200, 0},
		"an unknown tool in base64": {w.modern("pro", "tools/call", map[string]any{"name": "nöpe"}, "Mcp-Name", "=?base64?bsO2cGU=?="), 0, -32602},
		"no base64":                 {w.modern("pro", "tools/call", map[string]any{"name": "nöpe"}, "Mcp-Name", "=?base64?%?="), 400, -32020},
		"no end of the base64": {w.modern("pro", "tools/call", map[string]any{"name": "get_account", "arguments": map[string]any{"x": 1}}, "Mcp-Name",
			"=?base64?Z2V0X2FjY291bnQ=.."), 400, -32020},
		"one character for both": {w.modern("pro", "tools/call", map[string]any{"name": "nöpe"}, "Mcp-Name", "=?base64?="), 400, -32020},
		"an unknown revision":    {w.modern("pro", "tools/list", nil, "MCP-Protocol-Version", "2030-01-01"), 400, 0},
		"an unknown tool":        {w.modern("pro", "tools/call", map[string]any{"name": "nothing", "arguments": map[string]any{}}), 0, -32602},
	} {
		failure, _ := c.r.json["error"].(map[string]any)
		if c.status != 0 && c.r.status != c.status || c.code != 0 && failure["code"] != c.code {
			t.Errorf("%s: %d %s", what, c.r.status, c.r.body)
		}
	}
	w.wantUsage(t, "pro", 1, 1, 0)
}

// A prompt is about the property of its argument, which is required: without it, the text would be about no site.
func TestMCP200Prompts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prompts, _ := w.legacy("pro", "prompts/list", nil).result(t)["prompts"].([]any)
	if len(prompts) != 3 {
		t.Errorf("%d prompts", len(prompts))
	}
	for _, p := range prompts {
		name := p.(map[string]any)["name"]
		get := func(arguments map[string]any) rpc {
			return w.legacy("pro", "prompts/get", map[string]any{"name": name, "arguments": arguments})
		}
		if text := encoded(w, get(map[string]any{"property": "main"}).result(t)["messages"]); !strings.Contains(text, " main") {
			t.Errorf("%s does not name the property: %s", name, text)
		}
		for _, arguments := range []map[string]any{nil, {"property": ""}, {"site": "main"}} {
			r := get(arguments)
			failure, _ := r.json["error"].(map[string]any)
			if message, _ := failure["message"].(string); failure["code"] != -32602.0 || !strings.Contains(message, "property") {
				t.Errorf("%s with %v: %d %s", name, arguments, r.status, r.body)
			}
		}
	}
}

// wantCapabilities checks that a server without sessions promises nothing that needs one.
func wantCapabilities(t *testing.T, result map[string]any) {
	t.Helper()
	capabilities, _ := result["capabilities"].(map[string]any)
	wantMembers(t, "capabilities", result["capabilities"], "prompts tools")
	for name, value := range capabilities {
		if options, _ := value.(map[string]any); len(options) > 0 {
			t.Errorf("the server promises %s %v", name, options)
		}
	}
	if text, _ := result["instructions"].(string); text == "" || len(text) > 2000 {
		t.Errorf("instructions of %d bytes", len(text))
	}
}

// An abandoned subscription must not keep a goroutine: there is nothing to subscribe to, so that its stream ends at once.
func TestMCP200ListenEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := time.Now()
	r := w.modern("pro", "subscriptions/listen", map[string]any{"notifications": map[string]any{"toolsListChanged": true, "promptsListChanged": true}})
	if took := time.Since(began); took > 20*time.Second { // a request ends after 25 seconds at the latest
		t.Errorf("the answer %d takes %v", r.status, took)
	}
	w.await(t, "the end of the request", func() bool { return strings.Contains(w.metrics(), "sara_requests_in_flight 0") })
}
