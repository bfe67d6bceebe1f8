package proxy

import (
	"net/http"
	"testing"

	"github.com/valyala/fasthttp"
)

// BenchmarkSummary is a whole request through the handler: key, plan, scope, budgets, parameters, property, one question to
// an upstream on this machine that answers at once, and the answer.
func BenchmarkSummary(b *testing.B) {
	w := newWorld(b)
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) {
		mustWrite(rw, `{"rows":[{"keys":["2026-11-01"],"clicks":12,"impressions":340,"ctr":0.03529411764705882,"position":7.25}]}`)
	})
	w.benchmark(b, w.path("main", "/summary?date_range=last_28d&compare=previous_period"))
}

// BenchmarkMe is the same without an upstream: what every request costs.
func BenchmarkMe(b *testing.B) {
	w := newWorld(b)
	w.benchmark(b, "/v1/me")
}

func (w *world) benchmark(b *testing.B, target string) {
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.SetMethod(http.MethodGet)
	ctx.Request.SetRequestURI(target)
	ctx.Request.Header.Set("Authorization", "Bearer "+w.keys["pro"])
	b.ReportAllocs()
	for b.Loop() {
		ctx.Response.Reset()
		w.server.edge.Handler(&ctx)
		if ctx.Response.StatusCode() != http.StatusOK {
			b.Fatalf("answers %d %s", ctx.Response.StatusCode(), ctx.Response.Body())
		}
	}
}
