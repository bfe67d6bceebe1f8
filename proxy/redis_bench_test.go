package proxy

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/valyala/fasthttp"

	"sara/policy/redistest"
)

// withoutMemory makes each answer come from Redis: an account's share of the memory has no place for it.
func withoutMemory(c *Config) { c.Cache.Bytes = 8 << 10 }

// BenchmarkQueriesShared is a table of 62 rows from a copy of 1,001 rows in Redis, through the handler.
func BenchmarkQueriesShared(b *testing.B) {
	w := newWorld(b, limited(unlimited), over(redistest.Single(b).Client()), withoutMemory)
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { mustWrite(rw, upstreamRows(1001)) })
	w.benchmark(b, w.path("main", "/queries?limit=62"), "")
}

// BenchmarkQueriesMiss is the same table from an upstream on this machine, with the copy that it leaves in Redis. The upstream's side of
// the call is included.
func BenchmarkQueriesMiss(b *testing.B) {
	w := newWorld(b, limited(unlimited), over(redistest.Single(b).Client()))
	body := upstreamRows(1001)
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { mustWrite(rw, body) })
	ctx := w.request(w.path("main", "/queries"))
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		ctx.Request.URI().SetQueryString(`limit=62&filters=[{"dimension":"query","operator":"not_contains","value":"zzz` + strconv.Itoa(n) + `"}]`)
		ctx.Request.SetRequestURIBytes(ctx.Request.URI().RequestURI())
		ctx.Response.Reset()
		w.server.edge.Handler(ctx)
		if ctx.Response.StatusCode() != fasthttp.StatusOK {
			b.Fatalf("answers %d %s", ctx.Response.StatusCode(), ctx.Response.Body())
		}
	}
}
