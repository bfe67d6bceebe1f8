//go:build !race

package proxy

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/valyala/fasthttp"
)

// The budget of a request that memory answers. Of our own there are five allocations: the call, its id, the client's
// address, the grant and the ask. The router makes three, of the property in the path, and slog one, of a record with more
// than five attributes.
func TestAnAnswerFromMemoryAllocatesLittle(t *testing.T) {
	const ours, routers, slogs = 5, 3, 1
	quiet := newWorld(t, func(c *Config) { c.Log = slog.New(slog.DiscardHandler) })
	logged := newWorld(t)
	for _, test := range []struct {
		name, path string
		headers    []string
		status     int
	}{
		{"summary", "/summary?date_range=last_28d&compare=previous_period", nil, http.StatusOK},
		{"queries", "/queries", nil, http.StatusOK},
		{"queries, compressed", "/queries", []string{fasthttp.HeaderAcceptEncoding, "gzip, deflate, br"}, http.StatusOK},
		{"queries that the client has", "/queries", []string{fasthttp.HeaderIfNoneMatch, "*"}, http.StatusNotModified},
	} {
		check := func(w *world, budget float64) {
			t.Helper()
			ctx := w.request(w.path("main", test.path), test.headers...)
			answer := func() {
				ctx.Response.Reset()
				w.server.edge.Handler(ctx)
				if ctx.Response.StatusCode() != test.status {
					t.Fatalf("%s: %d %s", test.name, ctx.Response.StatusCode(), ctx.Response.Body())
				}
			}
			if n := testing.AllocsPerRun(100, answer); n > budget {
				t.Errorf("%s: %v allocations, budget %v", test.name, n, budget)
			}
		}
		check(quiet, ours+routers)
		check(logged, ours+routers+slogs)
	}
}
