package proxy

import (
	"io"
	"net/http"
	"testing"

	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/proxy/connections"
)

// BenchmarkSummaryHit is a whole request through the handler, answered from memory: key, plan, scope, budgets and the prepared
// bytes.
func BenchmarkSummaryHit(b *testing.B) {
	w := newWorld(b, limited(unlimited))
	w.benchmark(b, w.path("main", "/summary?date_range=last_28d&compare=previous_period"), "")
}

// BenchmarkQueriesHit is the same with an answer of 15 kB, plain and compressed.
func BenchmarkQueriesHit(b *testing.B) {
	w := newWorld(b, limited(unlimited))
	b.Run("plain", func(b *testing.B) { w.benchmark(b, w.path("main", "/queries"), "") })
	b.Run("gzip", func(b *testing.B) {
		w.benchmark(b, w.path("main", "/queries"), "", fasthttp.HeaderAcceptEncoding, "gzip, deflate, br")
	})
}

// BenchmarkSummaryLive is the same with one call to an upstream on this machine that answers at once.
func BenchmarkSummaryLive(b *testing.B) {
	w := newWorld(b, limited(unlimited))
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) {
		mustWrite(rw, `{"rows":[{"keys":["2026-11-01"],"clicks":12,"impressions":340,"ctr":0.03529411764705882,"position":7.25}]}`)
	})
	w.benchmark(b, w.path("main", "/summary?date_range=last_28d&compare=previous_period"), "no-cache")
}

// BenchmarkMe is the same without a report: the cost of every request.
func BenchmarkMe(b *testing.B) {
	w := newWorld(b, limited(unlimited))
	w.benchmark(b, "/v1/me", "")
}

// BenchmarkDenial is a request beyond the minute of its key, for an answer in memory.
func BenchmarkDenial(b *testing.B) {
	w := newWorld(b, limited(func(p *policy.Plan) { p.RequestsPerMinutePerKey = 2 }), func(c *Config) { c.AccessLog.Out = io.Discard })
	ctx := w.request(w.path("main", "/queries"))
	for range 2 {
		w.server.edge.Handler(ctx) // a miss, and a hit, which is memoized
	}
	b.ReportAllocs()
	for b.Loop() {
		ctx.Response.Reset()
		w.server.edge.Handler(ctx)
		if ctx.Response.StatusCode() != http.StatusTooManyRequests {
			b.Fatalf("answers %d %s", ctx.Response.StatusCode(), ctx.Response.Body())
		}
	}
}

// unlimited removes the limits, for benchmarks.
func unlimited(p *policy.Plan) {
	const plenty = 1 << 30
	p.RequestsPerMinutePerKey, p.RequestsPerHour, p.RequestsPerDay = plenty, plenty, plenty
	p.SearchConsoleCallsPerDay, p.LiveCallsPerMinutePerProperty = plenty, plenty
}

func (w *world) benchmark(b *testing.B, target, cacheControl string, headers ...string) {
	ctx := w.request(target, append(headers, fasthttp.HeaderCacheControl, cacheControl)...)
	b.ReportAllocs()
	for b.Loop() {
		ctx.Response.Reset()
		w.server.edge.Handler(ctx)
		if ctx.Response.StatusCode() != http.StatusOK {
			b.Fatalf("answers %d %s", ctx.Response.StatusCode(), ctx.Response.Body())
		}
	}
}

// request returns a request as the edge passes it to the handler.
func (w *world) request(target string, headers ...string) *fasthttp.RequestCtx {
	ctx := new(fasthttp.RequestCtx)
	ctx.Init2(&connection{Conn: &connections.Conn{Address: "203.0.113.7"}}, nil, false)
	ctx.Request.Header.SetMethod(http.MethodGet)
	ctx.Request.SetRequestURI(target)
	ctx.Request.Header.Set("Authorization", "Bearer "+w.keys["pro"])
	for i := 0; i < len(headers); i += 2 {
		ctx.Request.Header.Set(headers[i], headers[i+1])
	}
	return ctx
}
