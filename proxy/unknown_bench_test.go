package proxy

import (
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"

	"sara/proxy/connections"
)

// BenchmarkUnknownKey is a request with an unknown key that has the form of one, through the handler: each key is a new one, and
// so is its address ("one guess"), or all come from one address that has used up its minute ("a flood"). Nonsense has not the
// form of a key.
func BenchmarkUnknownKey(b *testing.B) {
	secret := strings.Repeat("A", 39)
	var n atomic.Uint64
	key := func() string {
		return "Bearer sara_live_" + secret + base32.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, n.Add(1)))[:13]
	}
	for name, test := range map[string]struct {
		key     func() string
		address func() string
	}{
		"one guess": {key, func() string { return fmt.Sprintf("10.%d.%d.%d", n.Load()>>16&255, n.Load()>>8&255, n.Load()&255) }},
		"a flood":   {key, func() string { return "203.0.113.7" }},
		"nonsense":  {func() string { return "Bearer sara_live_NONSENSE" }, func() string { return "203.0.113.7" }},
	} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b)
			b.ReportAllocs()
			b.SetParallelism(64)
			b.RunParallel(func(pb *testing.PB) {
				ctx := new(fasthttp.RequestCtx) // reused, as the server does
				for pb.Next() {
					ctx.Init2(&connection{Conn: &connections.Conn{Address: test.address()}}, nil, false)
					ctx.Request.Reset()
					ctx.Response.Reset()
					ctx.Request.SetRequestURI("/v1/me")
					ctx.Request.Header.Set("Authorization", test.key())
					w.server.edge.Handler(ctx)
					if status := ctx.Response.StatusCode(); status != http.StatusUnauthorized && status != http.StatusTooManyRequests {
						b.Errorf("answers %d %s", status, ctx.Response.Body())
					}
				}
			})
		})
	}
}
