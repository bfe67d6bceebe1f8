package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"sara/policy/redistest"
)

// A page of a table is the same whether it is built from all rows, from the first rows of a copy in Redis, or from the rest of that copy.
// Where the upstream orders ties in another way, so that the rows are not ranked, too.
func TestPagesFromACopyEqualThoseFromItsRows(t *testing.T) {
	t.Parallel()
	pages := []string{"limit=10", "limit=100", "limit=101", "limit=1000", "limit=10&offset=995", "limit=10&offset=1290", "limit=100&order_by=clicks",
		"limit=100&order_by=-impressions", "limit=10&order_by=key", "limit=5&order_by=position"}
	for _, sample := range []struct {
		tie, rows int // rows with equal clicks, and all
	}{{1, 100}, {7, 999}, {1, 1001}, {7, 1001}, {7, 1300}} {
		client := redistest.Single(t).Client()
		filler := newWorld(t, over(client))
		var calls atomic.Int64
		filler.answerWith(func(rw http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			mustWrite(rw, tiedRows(sample.rows, sample.tie))
		})
		path := filler.path("main", "/queries")
		want := map[string]string{}
		for _, page := range pages {
			want[page] = gjson.GetBytes(filler.get("pro", path+"?"+page).ok(t).body, "data").Raw
		}
		filler.await(t, "the copies", func() bool {
			leases, err := client.Keys(t.Context(), "sara:c:*:lease").Result()
			return err == nil && len(leases) == 0
		})
		filled := calls.Load()
		for i := range pages {
			other := filler.replica(over(client))
			for j := range pages {
				page := pages[(i+j)%len(pages)]
				status, body := other.fetch(path+"?"+page, nil, "")
				if got := gjson.GetBytes(body, "data").Raw; status != http.StatusOK || got != want[page] {
					t.Errorf("%+v: %s after %d others: %d %s, want %s", sample, page, j, status, got, want[page])
				}
			}
		}
		if n := calls.Load(); n != filled {
			t.Errorf("%+v: %d pages were not from a copy", sample, n-filled)
		}
	}
}

// tiedRows is a body of rows that come in groups of equal clicks, whose keys descend.
func tiedRows(n, tie int) string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"keys":["k%05d"],"clicks":%d,"impressions":%d,"ctr":0.5,"position":%d.5}`, n-i, (n-i+tie-1)/tie, 5000+i*7919%1000, 1+i%50)
	}
	return `{"rows":[` + strings.Join(rows, ",") + `],"responseAggregationType":"byProperty"}`
}
