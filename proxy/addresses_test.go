package proxy

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"sara/policy"
)

// behind repeats a request as a trusted proxy sends it for a client.
func (w *world) behind(key, path, client string) response {
	return w.getWith(key, path, nil, "X-Forwarded-For", "192.0.2.1, "+client) // the client's own entry comes first
}

// A restricted key works from its networks only, also where a request from them was memoized.
func TestSummary403Address(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.TrustedProxyHeader = "X-Forwarded-For" })
	path := w.path("main", "/summary")
	memoized := func() bool {
		ctx := w.request(path, "X-Forwarded-For", "192.0.2.7")
		ctx.Request.Header.Set("Authorization", "Bearer "+w.keys["elsewhere"])
		f := w.server.headers.read(ctx)
		return w.server.memo.find(ctx, &f) != nil
	}
	w.await(t, "the memo", func() bool {
		w.behind("elsewhere", path, "192.0.2.7").ok(t)
		return memoized()
	})
	for range 2 {
		for _, client := range []string{"192.0.2.255", "::ffff:192.0.2.7", "2001:db8::1", "192.0.2.9:4711", "[2001:db8::9]:4711"} {
			w.behind("elsewhere", path, client).ok(t)
		}
		for _, client := range []string{"192.0.3.7", "::ffff:192.0.3.7", "2001:db9::1", "::192.0.2.7", "unknown"} {
			r := w.behind("elsewhere", path, client)
			r.want(t, http.StatusForbidden, policy.CodeAddress, client)
			w.wantHeaders(t, r)
			if strings.Contains(string(r.body), "192.0.2.0") || strings.Contains(string(r.body), "2001:db8::/32") {
				t.Errorf("the refusal names the networks of the key: %s", r.body)
			}
		}
	}
	w.get("elsewhere", path).want(t, http.StatusForbidden, policy.CodeAddress, "127.0.0.1") // past the proxy
	w.behind("agency", path, "192.0.3.7").ok(t)

	_, err := w.store.RestrictKey(t.Context(), w.keyIDs["elsewhere"], policy.StoredAddresses("192.0.3.7/32"))
	w.must(err)
	w.behind("elsewhere", path, "192.0.2.7").want(t, http.StatusForbidden, policy.CodeAddress)
	w.behind("elsewhere", path, "192.0.3.7").ok(t)
}

// A key that was stolen and cannot be used cannot be used up either: what comes from other addresses counts against those.
func TestMe403AddressLeavesTheMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.TrustedProxyHeader, c.Admission.Plans = "X-Forwarded-For", policy.DefaultPlans() })
	const thief, tries = "198.51.100.7", 100
	refused := 0
	for range tries {
		if r := w.behind("elsewhere", "/v1/me", thief); r.status != http.StatusForbidden {
			r.want(t, http.StatusTooManyRequests, policy.CodeRateLimited, "not for this address")
			refused++
		}
		w.behind("elsewhere", "/v1/nowhere", thief).want(t, http.StatusNotFound, policy.CodeNotFound)
	}
	if most := tries - 30; refused < most-1 || refused > most { // a token may come back meanwhile
		t.Errorf("%d of %d requests are refused for their address", refused, tries)
	}
	w.behind("elsewhere", "/v1/me", "192.0.2.7").ok(t)
	w.behind("agency", "/v1/me", thief).ok(t)
}

// Without a trusted proxy, a client cannot choose its address.
func TestMe403AddressForged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.behind("elsewhere", "/v1/me", "192.0.2.7").want(t, http.StatusForbidden, policy.CodeAddress, "127.0.0.1")
	r := w.behind("elsewhere", "/v1/openapi.json", "192.0.2.7")
	wrong := []string{"", w.behind("agency", "/v1/openapi.json", "192.0.2.7").header.Get("X-RateLimit-Limit")}
	if r.status != http.StatusOK || slices.Contains(wrong, r.header.Get("X-RateLimit-Limit")) {
		t.Errorf("the document comes with %d and the allowance %q", r.status, r.header.Get("X-RateLimit-Limit"))
	}
}

// A hit with a restricted key allocates as much as with any key behind a proxy.
func TestRestrictedHitAllocatesLittle(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.AccessLog.Out, c.TrustedProxyHeader = io.Discard, "X-Forwarded-For" })
	counts := map[string]float64{}
	for _, key := range []string{"agency", "elsewhere"} {
		ctx := w.request(w.path("main", "/queries"), "X-Forwarded-For", "192.0.2.7")
		ctx.Request.Header.Set(fasthttp.HeaderAuthorization, "Bearer "+w.keys[key])
		counts[key] = testing.AllocsPerRun(100, func() {
			ctx.Response.Reset()
			w.server.edge.Handler(ctx)
			if ctx.Response.StatusCode() != http.StatusOK {
				t.Fatalf("%s: %d %s", key, ctx.Response.StatusCode(), ctx.Response.Body())
			}
		})
	}
	if counts["elsewhere"] > counts["agency"] {
		t.Errorf("%v allocations, without a restriction %v", counts["elsewhere"], counts["agency"])
	}
}
