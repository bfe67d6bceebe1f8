package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"sara/archive"
	"sara/translate"
)

// BenchmarkQueriesStored is a table of archived days, other ones each time, through the handler: the months are in memory.
func BenchmarkQueriesStored(b *testing.B) {
	w, live := newArchiveWorld(b, 1000)
	const ranges = 560
	n := 0
	w.benchmarkEach(b, func() string {
		n++
		start := live - 41 - translate.Date(n%ranges)
		return w.path("main", fmt.Sprintf("/queries?limit=62&start_date=%s&end_date=%s", start, start+translate.Date(6+n/ranges%33)))
	})
}

// BenchmarkQueriesHybrid is a table of archived days together with all live ones.
func BenchmarkQueriesHybrid(b *testing.B) {
	w, live := newArchiveWorld(b, 1000)
	const days = 150
	n := 0
	w.benchmarkEach(b, func() string {
		n++
		return w.path("main", fmt.Sprintf("/queries?limit=%d&start_date=%s&end_date=2026-11-19", 10+n/days%100, live-1-translate.Date(n%days)))
	})
}

// newArchiveWorld has a property with archived days in memory, before the live ones, which have 400 queries.
func newArchiveWorld(tb testing.TB, archived int) (w *world, live translate.Date) {
	history, keeping := kept(tb)
	w = newWorld(tb, keeping, limited(unlimited), func(c *Config) { c.Reports.Anomalies, c.Cache.Bytes = translate.KnownAnomalies(), 8<<20 })
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) { mustWrite(rw, upstreamRows(400)) })
	live = *dateOf(tb, liveFrom)
	random := rand.New(rand.NewPCG(1, 2))
	days := make([]archive.Day, archived)
	for i := range days {
		var rows translate.RowsBuilder
		for k := range 100 {
			clicks := 1 + random.Int64N(int64(1000/(k+1)))
			rows.Add(fmt.Appendf(nil, "query %d of %d", random.IntN(4), k),
				translate.Metrics{Clicks: clicks, Impressions: 20 * clicks, Position: float64(10+random.IntN(300)) / 10})
		}
		days[i] = archive.Day{Date: live - translate.Date(len(days)-i), Dimension: translate.ByQuery, Final: true, Rows: rows.Rows()}
	}
	id, ctx := w.properties["main"].ID, context.Background()
	w.must(history.Merge(ctx, id, days))
	_, err := history.Read(ctx, id, translate.ByQuery, translate.DateRange{Start: live - translate.Date(len(days)), End: live - 1}, 0)
	w.must(err)
	return w, live
}
