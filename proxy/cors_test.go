package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"sara/policy"
	"sara/proxy/openapi"
)

const appOrigin = "https://app.example.com"

func shared(origins ...string) func(*Config) { return func(c *Config) { c.CORSOrigins = origins } }

// exchange sends a request with a method and headers, as name, value pairs.
func (w *world) exchange(method, key, path string, headers ...string) response {
	w.t.Helper()
	request, err := http.NewRequest(method, w.base+path, nil)
	w.must(err)
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+w.keys[key])
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return w.do(request)
}

// preflight sends what a browser asks before it sends a key to another origin, and returns the answer and its body.
func (w *world) preflight(path, origin, method string) (*http.Response, []byte) {
	w.t.Helper()
	request, err := http.NewRequest(http.MethodOptions, w.base+path, nil)
	w.must(err)
	request.Header.Set("Origin", origin)
	request.Header.Set("Access-Control-Request-Method", method)
	request.Header.Set("Access-Control-Request-Headers", "authorization")
	answer, err := http.DefaultTransport.RoundTrip(request)
	w.must(err)
	body, err := io.ReadAll(answer.Body)
	w.must(err)
	w.must(answer.Body.Close())
	return answer, body
}

// wantShared checks that pages of an origin may read an answer; empty: none may.
func wantShared(t *testing.T, what string, r response, origin string, varies bool) {
	t.Helper()
	h := r.header
	exposed := h.Get("Access-Control-Expose-Headers")
	_, last, _ := strings.Cut(strings.Join(h.Values("Vary"), "|"), "Accept-Encoding")
	if h.Get("Access-Control-Allow-Origin") != origin || (exposed != "") != (origin != "") || last != map[bool]string{true: ", Origin"}[varies] {
		t.Errorf("%s: %d with Access-Control-Allow-Origin %q, Access-Control-Expose-Headers %q, Vary %q", what, r.status,
			h.Get("Access-Control-Allow-Origin"), exposed, h.Values("Vary"))
	}
	if h.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%s allows credentials", what)
	}
}

// A preflight needs no key and is not charged.
func TestCORS204Preflight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shared(appOrigin, "http://localhost:5173"))
	for _, path := range []string{"/v1/me", w.path("main", "/queries?limit=1"), "/v1/nothing"} {
		for _, origin := range []string{appOrigin, "http://localhost:5173"} {
			r, body := w.preflight(path, origin, "GET")
			h := r.Header
			if r.StatusCode != http.StatusNoContent || len(body) != 0 || h.Get("Access-Control-Allow-Origin") != origin || h.Get("Vary") != "Origin" ||
				h.Get("Access-Control-Allow-Methods") != "GET, HEAD" || h.Get("Access-Control-Max-Age") != "7200" || h.Get("X-Request-Id") == "" ||
				h.Get("Access-Control-Allow-Headers") != "Authorization, Accept, Cache-Control, If-None-Match" ||
				h.Get("Access-Control-Allow-Credentials") != "" || h.Get("X-Cache") != "bypass" || h.Get("X-RateLimit-Limit") != "0" ||
				h.Get("X-RateLimit-Remaining") != "0" || h.Get("X-RateLimit-Reset") == "" {
				t.Errorf("%s from %s: %d %q %v", path, origin, r.StatusCode, body, h)
			}
		}
	}
	w.wantUsage(t, "pro", 1, 1, 0) // by the request for the usage itself
}

// Agents in a page of a configured origin reach /mcp, too.
func TestCORS204And200MCP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shared(appOrigin))
	answer, body := w.preflight(pathMCP, appOrigin, "POST")
	h := answer.Header
	if answer.StatusCode != http.StatusNoContent || len(body) != 0 || h.Get("Access-Control-Allow-Origin") != appOrigin ||
		h.Get("Access-Control-Allow-Methods") != "POST" ||
		h.Get("Access-Control-Allow-Headers") != "Authorization, Accept, Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name" {
		t.Errorf("a preflight: %d %q %v", answer.StatusCode, body, h)
	}
	for _, c := range []struct {
		key, origin string
		status      int
	}{{"pro", appOrigin, http.StatusOK}, {"revoked", appOrigin, http.StatusUnauthorized}, {"pro", "https://evil.example", http.StatusForbidden}} {
		r := w.modern(c.key, "tools/call", map[string]any{"name": "get_account", "arguments": map[string]any{}}, "Origin", c.origin)
		allowed := ""
		if c.status != http.StatusForbidden {
			allowed = appOrigin
		}
		if r.status != c.status || r.header.Get("Access-Control-Allow-Origin") != allowed || !strings.Contains(r.header.Get("Vary"), "Origin") ||
			(r.header.Get("Access-Control-Expose-Headers") != "") != (allowed != "") {
			t.Errorf("the key %s from %s: %d %v %s", c.key, c.origin, r.status, r.header, r.body)
		}
	}
}

// What is not a preflight of a configured origin is a wrong method, as without CORS.
func TestCORS405(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shared(appOrigin))
	for name, headers := range map[string][]string{
		"another origin":        {"Origin", "https://evil.example", "Access-Control-Request-Method", "GET"},
		"another port":          {"Origin", appOrigin + ":8443", "Access-Control-Request-Method", "GET"},
		"a longer host":         {"Origin", appOrigin + ".evil.example", "Access-Control-Request-Method", "GET"},
		"null":                  {"Origin", "null", "Access-Control-Request-Method", "GET"},
		"no origin":             {"Access-Control-Request-Method", "GET"},
		"no method":             {"Origin", appOrigin},
		"a method of its own":   {"Origin", ""},
		"two origins in a list": {"Origin", appOrigin + ", https://evil.example", "Access-Control-Request-Method", "GET"},
	} {
		r := w.exchange("OPTIONS", "", "/v1/me", headers...)
		r.want(t, http.StatusMethodNotAllowed, openapi.CodeMethodNotAllowed)
		origin := ""
		if name == "no method" {
			origin = appOrigin
		}
		wantShared(t, name, r, origin, true)
	}
}

// Pages of a configured origin read answers and errors, with the headers that they need; those of another origin do not.
func TestCORS200And4xx(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shared(appOrigin))
	queries := w.path("main", "/queries")
	for _, c := range []struct {
		key, path string
		status    int
	}{
		{"pro", queries, 200},
		{"pro", queries, 200}, // from the memo
		{"pro", "/v1/me", 200},
		{"", openapi.Path, 200},
		{"pro", queries + "?limit=0", 400},
		{"", "/v1/me", 401},
		{"config_only", queries, 403},
		{"pro", "/v1/nothing", 404},
		{"pro", "/v1/me?" + strings.Repeat("x", maxURL), 414},
	} {
		r := w.exchange("GET", c.key, c.path, "Origin", appOrigin)
		wantShared(t, brief(c.path), r, appOrigin, true)
		if r.status != c.status {
			t.Errorf("%s answers %d", brief(c.path), r.status)
		}
		wantShared(t, brief(c.path)+" elsewhere", w.exchange("GET", c.key, c.path, "Origin", "https://evil.example"), "", true)
		wantShared(t, brief(c.path)+" without origin", w.exchange("GET", c.key, c.path), "", true)
	}
	tag := w.exchange("GET", "pro", queries).header.Get("ETag")
	r := w.exchange("GET", "pro", queries, "Origin", appOrigin, "If-None-Match", tag)
	if wantShared(t, "a 304", r, appOrigin, true); r.status != http.StatusNotModified {
		t.Errorf("it answers %d", r.status)
	}
	exposed := r.header.Get("Access-Control-Expose-Headers")
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id", "X-Cache", "ETag", "Retry-After",
		"X-Source", "X-Stale-Reason", "X-Truncated-By", "X-Has-More", "X-Date-Range", "X-Note"} {
		if !strings.Contains(", "+exposed+",", ", "+name+",") {
			t.Errorf("%s is not exposed", name)
		}
	}
	for _, path := range []string{"/docs", "/", "/llms.txt"} { // not the API
		if r, _ := w.raw(path, "Origin", appOrigin); r.Header.Get("Access-Control-Allow-Origin") != "" || strings.Contains(r.Header.Get("Vary"), "Origin") {
			t.Errorf("%s: %v", path, r.Header)
		}
	}
}

// A 429 has its headers for pages, too; so has a request that cannot be read.
func TestCORS429And413(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shared(appOrigin), func(c *Config) {
		plan := c.Admission.Plans["pro"]
		plan.RequestsPerMinutePerKey = 1
		c.Admission.Plans["pro"] = plan
	})
	w.get("pro", "/v1/me").ok(t)
	r := w.exchange("GET", "pro", "/v1/me", "Origin", appOrigin)
	r.want(t, http.StatusTooManyRequests, policy.CodeRateLimited)
	wantShared(t, "a 429", r, appOrigin, true)
	request, err := http.NewRequest("GET", w.base+"/v1/me", strings.NewReader(strings.Repeat("x", 2*maxBody)))
	w.must(err)
	request.Header.Set("Origin", appOrigin)
	r = w.do(request)
	r.want(t, http.StatusRequestEntityTooLarge, openapi.CodeTooLarge)
	wantShared(t, "a 413", r, appOrigin, true)
}

// Every origin is admitted only if * is configured, and then by that name.
func TestCORS200AnyOrigin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shared(AnyOrigin))
	for _, origin := range []string{appOrigin, "null", "http://x.example"} {
		wantShared(t, origin, w.exchange("GET", "pro", "/v1/me", "Origin", origin), "*", true)
		if r, _ := w.preflight("/v1/me", origin, "GET"); r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("a preflight from %s: %d %v", origin, r.StatusCode, r.Header)
		}
	}
}

// Without configured origins nothing is different.
func TestCORSOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wantShared(t, "an answer", w.exchange("GET", "pro", "/v1/me", "Origin", appOrigin), "", false)
	r := w.exchange("OPTIONS", "", "/v1/me", "Origin", appOrigin, "Access-Control-Request-Method", "GET")
	r.want(t, http.StatusMethodNotAllowed, openapi.CodeMethodNotAllowed)
	wantShared(t, "a preflight", r, "", false)
}
