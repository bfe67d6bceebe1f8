package upstream

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"sara/translate"
)

// The total allocations of one fill, and so its peak memory, are at most three times the body.
func TestQueryAllocatesAtMostThreeBodies(t *testing.T) {
	var body strings.Builder
	body.WriteString(`{"rows":[`)
	for i := range translate.WideSample {
		if i > 0 {
			body.WriteByte(',')
		}
		_, _ = fmt.Fprintf(&body, `{"keys":["https://www.example.com/%s/%d"],"clicks":%d,"impressions":100000,"ctr":0.1,"position":7.5}`,
			strings.Repeat("long-path-", 25), i, translate.WideSample-i)
	}
	body.WriteString(`],"responseAggregationType":"byPage"}`)
	for name, reply := range map[string]http.HandlerFunc{"plain": ok(body.String()), "gzip": gzipped([]byte(body.String()), 1)} {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t, reply, reply)
			c, acct := startClient(t, g.config()), account(t, authorizedUser())
			q := translate.Query{Site: site, Dimension: translate.ByPage, RowLimit: translate.WideSample}
			for range 2 { // the first one also allocates what later ones share
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				rows, err := c.query(t.Context(), acct, queryCall{site: site, question: q.Body(), most: q.MaxBody(),
					read: readerOf(new(translate.RowsReader), q)}, nil)
				runtime.ReadMemStats(&after)
				if err != nil || rows.Len() != translate.WideSample {
					t.Fatal(err)
				}
				// The server's own buffers are counted too.
				if allocated := int(after.TotalAlloc - before.TotalAlloc); allocated > 3*body.Len() {
					t.Errorf("%d bytes for a body of %d", allocated, body.Len())
				}
			}
		})
	}
}
