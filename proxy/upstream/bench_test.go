package upstream

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// BenchmarkCircuits admits a call that succeeds, without open circuits and with the maximum number of them.
func BenchmarkCircuits(b *testing.B) {
	for _, failing := range []int{0, maxPropertyCircuits} {
		b.Run(strconv.Itoa(failing)+" failing", func(b *testing.B) {
			u := newCircuitTest()
			for i := range failing {
				u.properties.fail(circuitKey{strconv.Itoa(i % maxConnectionCircuits), strconv.Itoa(i)}, "", u.now())
			}
			b.ReportAllocs()
			for b.Loop() {
				done, err := u.allow(circuitKey{"connection", "sc-domain:example.com"})
				if err != nil {
					b.Fatal(err)
				}
				done(success)
			}
		})
	}
}

// BenchmarkSearchAnalytics calls a trivial local server; the allocations include the server's.
func BenchmarkSearchAnalytics(b *testing.B) {
	f := func(name string, rows int, compressed bool) {
		b.Run(name, func(b *testing.B) {
			reply := []byte(`{"rows":[` + strings.Repeat(`{"keys":["running shoes"],"clicks":12,"impressions":340,"ctr":0.035,"position":7.25},`, rows) +
				`{"keys":["z"],"clicks":0,"impressions":1,"ctr":0,"position":9}],"responseAggregationType":"byProperty"}`)
			body := reply
			if compressed {
				body = fasthttp.AppendGzipBytes(nil, reply)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			server := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
				if compressed {
					ctx.Response.Header.Set("Content-Encoding", "gzip")
				}
				ctx.Response.SetBodyRaw(body)
			}}
			served := make(chan error, 1)
			go func() { served <- server.Serve(l) }()
			g := newGoogle(b)
			cfg := g.config()
			cfg.BaseURL = "http://" + l.Addr().String()
			c, acct := startClient(b, cfg), account(b, authorizedUser())
			b.SetBytes(int64(len(reply)))
			b.ReportAllocs()
			for b.Loop() {
				got, err := c.searchAnalytics(b.Context(), acct, site, queryBody, nil)
				if err != nil || len(got) != len(reply) {
					b.Fatalf("%d bytes, %v", len(got), err)
				}
			}
			c.close()
			if err := server.Shutdown(); err != nil {
				b.Error(err)
			}
			if err := <-served; err != nil {
				b.Error(err)
			}
		})
	}
	f("100 rows", 100, false)
	f("100 rows, gzip", 100, true)
	f("25000 rows, gzip", 25_000, true)
}
