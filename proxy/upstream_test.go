package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"sara/policy"
	"sara/proxy/openapi"
	"sara/proxy/upstream/gscsim"
)

// performanceEndpoints are the endpoints that query the upstream.
func performanceEndpoints() []string {
	return []string{"/summary", "/timeseries", "/queries", "/pages", "/countries", "/devices", "/movers/queries", "/movers/pages"}
}

// forEachPerformanceEndpoint requests every performance endpoint, with and without filters where it accepts them.
func (w *world) forEachPerformanceEndpoint(property string, check func(t *testing.T, r response, filtered bool)) {
	w.t.Helper()
	for _, endpoint := range performanceEndpoints() {
		w.run(endpoint, func(t *testing.T) { check(t, w.get("pro", w.path(property, endpoint)), false) })
		if !strings.Contains(endpoint, "movers") {
			w.run(endpoint+" filtered", func(t *testing.T) {
				check(t, w.get("pro", w.path(property, endpoint), "filters", filtersOf("brand", "is", "brand", "device", "is", "mobile")), true)
			})
		}
	}
}

// unavailableCode is the code of a request that cannot be answered now.
func unavailableCode(filtered bool) string {
	if filtered {
		return openapi.CodeFilteredUnavailable
	}
	return openapi.CodeUpstreamUnavailable
}

func TestEveryPerformanceEndpoint429(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		reason string
		retry  string
	}{{"quotaExceeded", "900"}, {"rateLimitExceeded", "60"}} {
		w.faults(gscsim.Faults{Reason: c.reason})
		w.forEachPerformanceEndpoint("main", func(t *testing.T, r response, _ bool) {
			r.want(t, http.StatusTooManyRequests, policy.CodeUpstreamQuota, c.retry+" seconds")
			if retry := r.header.Get("Retry-After"); retry != c.retry {
				t.Errorf("Retry-After is %s, not %s", retry, c.retry)
			}
			if left := r.header.Get("X-RateLimit-Remaining"); left != "0" {
				t.Errorf("X-RateLimit-Remaining is %s", left)
			}
		})
		w.advance(15 * time.Minute) // the cooldown of the site
	}
	w.faults(gscsim.Faults{})
	// An exhausted quota is not recorded as a broken connection, and errors are not cached.
	if d := w.get("pro", w.path("main", "")).ok(t).data(); fmt.Sprint(d["connection"]) != "map[healthy:true note:<nil>]" {
		t.Errorf("connection is %v", d["connection"])
	}
	w.get("pro", w.path("main", "/summary")).ok(t)
}

func TestEveryPerformanceEndpoint503(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, fault := range map[string]gscsim.Faults{
		"404": {Status: 404}, "500": {Status: 500}, "502": {Status: 502}, "503": {Status: 503}, "backendError": {Reason: "backendError"},
		"drops": {DropRate: 1},
	} {
		w.run(name, func(t *testing.T) {
			w.faults(fault)
			if name != "503" {
				w.get("pro", w.path("main", "/summary")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
				w.get("pro", w.path("main", "/pages"), "filters", filtersOf("brand", "is", "brand")).
					want(t, http.StatusServiceUnavailable, openapi.CodeFilteredUnavailable)
				return
			}
			w.forEachPerformanceEndpoint("main", func(t *testing.T, r response, filtered bool) {
				r.want(t, http.StatusServiceUnavailable, unavailableCode(filtered))
				if seconds, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || seconds < 1 {
					t.Errorf("Retry-After is %q", r.header.Get("Retry-After"))
				}
			})
		})
	}
	w.faults(gscsim.Faults{})
	if d := w.get("pro", w.path("main", "")).ok(t).data(); fmt.Sprint(d["connection"]) != "map[healthy:true note:<nil>]" {
		t.Errorf("an outage has made the connection %v", d["connection"])
	}
	w.get("pro", w.path("main", "/summary")).ok(t)
	w.wantNoSecrets()
}

// What Search Console refuses as malformed will not pass by itself.
func TestEveryPerformanceEndpoint400RefusedUpstream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(gscsim.Faults{Status: http.StatusBadRequest})
	w.forEachPerformanceEndpoint("main", func(t *testing.T, r response, _ bool) {
		r.want(t, http.StatusBadRequest, codeValidation, "Search Console refuses the question")
	})
}

// A malformed upstream answer must never be read as one without rows.
func TestEveryPerformanceEndpoint503Malformed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, body := range map[string]string{
		"nothing": "", "no JSON": "<html>", "null": "null", "a list": "[]", "a string": `"rows"`,
		"an empty object": "{}", "cut short": `{"rows":[{"keys":["2026-11-01"]`,
		"two values": `{"responseAggregationType":"auto"}{}`, "rows null": `{"rows":null}`, "rows an object": `{"rows":{}}`, "rows a number": `{"rows":1}`,
		"an empty row": `{"rows":[{}]}`, "a row null": `{"rows":[null]}`, "no keys": `{"rows":[{"clicks":1,"impressions":1,"ctr":1,"position":1}]}`,
		"two keys":         `{"rows":[{"keys":["2026-11-01","b"],"clicks":1,"impressions":1,"ctr":1,"position":1}]}`,
		"a key not text":   `{"rows":[{"keys":[1],"clicks":1,"impressions":1,"ctr":1,"position":1}]}`,
		"no clicks":        `{"rows":[{"keys":["2026-11-01"],"impressions":1,"ctr":1,"position":1}]}`,
		"negative clicks":  `{"rows":[{"keys":["2026-11-01"],"clicks":-1,"impressions":1,"ctr":1,"position":1}]}`,
		"clicks in text":   `{"rows":[{"keys":["2026-11-01"],"clicks":"1","impressions":1,"ctr":1,"position":1}]}`,
		"endless clicks":   `{"rows":[{"keys":["2026-11-01"],"clicks":1e400,"impressions":1,"ctr":1,"position":1}]}`,
		"rows twice":       `{"rows":[],"rows":[]}`,
		"an error inside":  `{"error":{"code":500,"message":"no"}}`,
		"nested for ever":  strings.Repeat("[", 100_000),
		"unknown nesting":  `{"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}",
		"a NUL behind it":  "{\"responseAggregationType\":\"auto\"}\x00",
		"not UTF-8 inside": "{\"rows\":[{\"keys\":[\"2026-11-01\xff\"],\"clicks\":-1}]}",
	} {
		w.run(name, func(t *testing.T) {
			w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { mustWrite(rw, body) })
			for _, endpoint := range []string{"/timeseries", "/queries", "/movers/pages"} {
				w.get("pro", w.path("main", endpoint)).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
			}
			w.get("pro", w.path("main", "/summary"), "filters", filtersOf("brand", "is", "brand")).
				want(t, http.StatusServiceUnavailable, openapi.CodeFilteredUnavailable)
		})
	}
	for name, body := range map[string]string{
		"a day out of the range": `{"rows":[{"keys":["2026-01-01"],"clicks":1,"impressions":1,"ctr":1,"position":1}]}`,
		"a day twice": `{"rows":[{"keys":["2026-11-01"],"clicks":1,"impressions":1,"ctr":1,"position":1},` +
			`{"keys":["2026-11-01"],"clicks":1,"impressions":1,"ctr":1,"position":1}]}`,
		"a day that is none": `{"rows":[{"keys":["yesterday"],"clicks":1,"impressions":1,"ctr":1,"position":1}]}`,
	} {
		w.run(name, func(t *testing.T) {
			w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { mustWrite(rw, body) })
			w.get("pro", w.path("main", "/summary")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
			w.get("pro", w.path("main", "/timeseries")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
		})
	}
}

// wantConnection checks the connection that the property's endpoint shows.
func (w *world) wantConnection(t *testing.T, property string, healthy bool) {
	t.Helper()
	connection := w.get("pro", w.path(property, "")).ok(t).data()["connection"].(map[string]any)
	if note, _ := connection["note"].(string); connection["healthy"] != healthy || (note == "") != healthy {
		t.Errorf("the connection of %s is %v, want healthy %v", property, connection, healthy)
	}
}

// A property that the account lost access to says so, and recovers by itself; others on the same connection keep working.
func TestProperty200AccessLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantConnection(t, "forbidden", true)
	w.get("pro", w.path("prefix", "/summary")).ok(t)
	for range 3 {
		w.get("pro", w.path("forbidden", "/summary")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
	}
	w.wantConnection(t, "forbidden", false)
	w.wantConnection(t, "prefix", true)
	w.get("pro", w.path("prefix", "/summary")).ok(t)
	if lines := strings.Count(w.logged(), "changed: access to a property"); lines != 1 {
		t.Errorf("the change is in the log %d times", lines)
	}

	w.faults(gscsim.Faults{Reason: "forbidden"})
	w.get("pro", w.path("prefix", "/movers/queries")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
	w.wantConnection(t, "prefix", false)
	w.wantConnection(t, "large", true)
	w.faults(gscsim.Faults{})
	w.advance(connectionRetry)
	w.get("pro", w.path("prefix", "/pages")).ok(t)
	w.wantConnection(t, "prefix", true)
}

// Negative caching: a refusal that is known beforehand costs neither a call nor live budget. A forbidden property costs one call a
// minute, a connection without a token none.
func TestMe200RefusalsAreNotCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	charged := func() float64 {
		return w.get("pro", "/v1/me").ok(t).data()["usage"].(map[string]any)["search_console_calls_today"].(float64)
	}
	for range 3 {
		w.get("pro", w.path("forbidden", "/summary")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
		w.get("pro", w.path("disconnected", "/queries")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
	}
	if calls := w.sim.Calls().SearchAnalytics; calls != 1 || charged() != 1 {
		t.Errorf("%d calls, %v charged, want 1 and 1", calls, charged())
	}
	w.advance(connectionRetry)
	w.get("pro", w.path("forbidden", "/summary")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
	if calls := w.sim.Calls().SearchAnalytics; calls != 2 || charged() != 2 {
		t.Errorf("a minute later %d calls, %v charged, want 2 and 2", calls, charged())
	}
}

// A revoked token marks the whole connection as unhealthy, once, and a working token marks it as healthy.
func TestProperty200Revoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	changes := func() int { return strings.Count(w.logged(), "changed: health of a connection") }
	w.get("pro", w.path("twin_a", "/summary")).ok(t) // of the same connection
	w.faults(gscsim.Faults{RevokeTokens: true})
	w.forEachPerformanceEndpoint("prefix", func(t *testing.T, r response, filtered bool) {
		if r.status == http.StatusBadRequest { // no brand terms
			return
		}
		r.want(t, http.StatusServiceUnavailable, unavailableCode(filtered))
	})
	w.wantConnection(t, "prefix", false)
	w.wantConnection(t, "large", false) // of the same connection
	w.wantConnection(t, "main", true)   // of another one
	if changes() != 1 {
		t.Errorf("the change is in the log %d times", changes())
	}

	w.faults(gscsim.Faults{})
	w.get("pro", w.path("prefix", "/summary")).ok(t)
	w.wantConnection(t, "prefix", true)
	w.wantConnection(t, "large", true)
	if changes() != 2 {
		t.Errorf("the changes are in the log %d times", changes())
	}
	w.wantNoSecrets()
}

// A refusal of one property shows that the connection's token works.
func TestProperty200RevokedThenForbidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(gscsim.Faults{RevokeTokens: true})
	w.get("pro", w.path("forbidden", "/summary")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
	w.wantConnection(t, "prefix", false)
	w.faults(gscsim.Faults{})
	w.get("pro", w.path("forbidden", "/summary")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
	w.wantConnection(t, "prefix", true)
	w.wantConnection(t, "forbidden", false)
}

// Misconfigured credentials: the note says what to change.
func TestProperty200Misconfigured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, reason := range []string{"insufficientPermissions", "accessNotConfigured"} {
		w.faults(gscsim.Faults{Reason: reason})
		w.get("pro", w.path("main", "/devices")).want(t, http.StatusServiceUnavailable, openapi.CodeUpstreamUnavailable)
		w.wantConnection(t, "main", false)
		w.faults(gscsim.Faults{})
		w.get("pro", w.path("main", "/devices")).ok(t)
		w.wantConnection(t, "main", true)
		w.advance(25 * time.Hour) // no cache keeps a copy that long
	}
}
