//go:build !race

package proxy

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/translate"
)

// allocationRuns is how often allocations answers a request, after once for a start.
const allocationRuns = 100

// allocations returns how many allocations it takes to answer a request with a status. It calls prepare before each time.
func (w *world) allocations(t *testing.T, ctx *fasthttp.RequestCtx, status int, prepare func()) float64 {
	return testing.AllocsPerRun(allocationRuns, func() {
		prepare()
		ctx.Response.Reset()
		w.server.edge.Handler(ctx)
		if ctx.Response.StatusCode() != status {
			t.Fatalf("%s: %d %s", ctx.RequestURI(), ctx.Response.StatusCode(), ctx.Response.Body())
		}
	})
}

// The allocation budget of a request that memory answers. Our code makes none: the call, with its id and its grant, is in the memory
// of the one before it on the connection. The request is in the memo, so the router does not run.
func TestHitAllocatesLittle(t *testing.T) {
	const budget = 0
	w := newWorld(t, func(c *Config) { c.AccessLog.Out = io.Discard })
	for _, test := range []struct {
		name, path string
		headers    []string
		status     int
	}{
		{"summary", "/summary?date_range=last_28d&compare=previous_period", nil, http.StatusOK},
		{"queries", "/queries", nil, http.StatusOK},
		{"a page of queries", "/queries?offset=50", nil, http.StatusOK},
		{"queries, compressed", "/queries", []string{fasthttp.HeaderAcceptEncoding, "gzip, deflate, br"}, http.StatusOK},
		{"queries for a browser", "/queries", []string{fasthttp.HeaderAccept, "text/html,application/xml;q=0.9,*/*;q=0.8"}, http.StatusOK},
		{"queries as CSV", "/queries", []string{fasthttp.HeaderAccept, acceptCSV}, http.StatusOK},
		{"queries that the client has", "/queries", []string{fasthttp.HeaderIfNoneMatch, "*"}, http.StatusNotModified},
	} {
		ctx := w.request(w.path("main", test.path), test.headers...)
		if n := w.allocations(t, ctx, test.status, func() {}); n > budget {
			t.Errorf("%s: %v allocations, budget %d", test.name, n, budget)
		}
	}
}

// CORS adds no allocation to a hit, from a page or not.
func TestSharedHitAllocatesLittle(t *testing.T) {
	const budget = 0
	w := newWorld(t, shared("https://other.example", appOrigin), func(c *Config) { c.AccessLog.Out = io.Discard })
	for _, headers := range [][]string{nil, {fasthttp.HeaderOrigin, appOrigin}, {fasthttp.HeaderOrigin, "https://evil.example"}} {
		ctx := w.request(w.path("main", "/queries"), headers...)
		if n := w.allocations(t, ctx, http.StatusOK, func() {}); n > budget {
			t.Errorf("%v: %v allocations, budget %d", headers, n, budget)
		}
	}
}

// The allocation budget of a denial of a memoized request: the refusal and the denial.
func TestDenialAllocatesLittle(t *testing.T) {
	const budget = 2
	w := newWorld(t, limited(func(p *policy.Plan) { p.RequestsPerMinutePerKey = 2 }), func(c *Config) { c.AccessLog.Out = io.Discard })
	ctx := w.request(w.path("main", "/queries"))
	for range 2 {
		w.server.edge.Handler(ctx) // a miss, and a hit, which is memoized
	}
	if n := w.allocations(t, ctx, http.StatusTooManyRequests, func() {}); n > budget {
		t.Errorf("%v allocations, budget %d", n, budget)
	}
}

// The allocation budget of a request whose key has not the form of one: botnets send nothing else. It makes the denial.
func TestNonsenseAllocatesLittle(t *testing.T) {
	const budget = 1
	w := newWorld(t, func(c *Config) { c.AccessLog.Out = io.Discard })
	ctx := w.request("/v1/me", fasthttp.HeaderAuthorization, "Bearer "+w.keys["pro"]+"X")
	if n := w.allocations(t, ctx, http.StatusUnauthorized, func() {}); n > budget {
		t.Errorf("%v allocations, budget %d", n, budget)
	}
}

// An unknown key among many from as many addresses makes no allocation.
func TestUnknownKeyAllocatesLittle(t *testing.T) {
	const budget, before = 0, 1000
	w := newWorld(t, func(c *Config) { c.AccessLog.Out = io.Discard })
	unknown, _ := policy.NewKey("sara")
	ctx := w.request("/v1/me", fasthttp.HeaderAuthorization, "Bearer "+unknown)
	peer := connectionOf(ctx)
	addresses := make([]string, before+allocationRuns+1)
	for n := range addresses {
		addresses[n] = fmt.Sprintf("10.0.%d.%d", n>>8, n&255)
	}
	for _, address := range addresses[:before] {
		another, _ := policy.NewKey("sara")
		_ = w.server.gate.Peek(t.Context(), policy.Request{Authorization: "Bearer " + another, Address: address})
	}
	next := before
	if n := w.allocations(t, ctx, http.StatusUnauthorized, func() {
		peer.Address = addresses[next]
		next++
	}); n > budget {
		t.Errorf("%v allocations, budget %d", n, budget)
	}
}

// The allocation budget of an answer that is built from archived days in memory, or from these and live rows in memory: the answer, its rows,
// and what the request is parsed and planned into; but neither sums nor rows of the parts.
func TestAnswersFromTheArchiveAllocateLittle(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would drop the memory that is used again
	w, live := newArchiveWorld(t, 70)
	for _, test := range []struct {
		name   string
		end    translate.Date
		allocs float64
		bytes  uint64
	}{{"stored", live - 1, 39, 16 << 10}, {"hybrid", live + 10, 44, 17 << 10}} {
		targets := make([]string, 1+allocationRuns+1)
		for n := range targets { // a new answer each time
			targets[n] = w.path("main", fmt.Sprintf("/queries?limit=%d&start_date=%s&end_date=%s", 50+n/60, live-2-translate.Date(n%60), test.end))
		}
		ctx, next := w.request(targets[0]), 1
		w.server.edge.Handler(ctx) // fills the memory, and what is used again
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n := w.allocations(t, ctx, http.StatusOK, func() {
			ctx.Request.SetRequestURI(targets[next])
			next++
		})
		runtime.ReadMemStats(&after)
		if bytes := (after.TotalAlloc - before.TotalAlloc) / (1 + allocationRuns); n > test.allocs || bytes > test.bytes {
			t.Errorf("%s: %v allocations of %d bytes, budget %v of %d", test.name, n, bytes, test.allocs, test.bytes)
		}
	}
}
