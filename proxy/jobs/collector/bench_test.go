package collector

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"sara/proxy/upstream"
	"sara/translate"
)

// BenchmarkBackfill measures the cost of the collector itself: the upstream answers at once, and there are no rate limits. One
// operation is a day of a property, about 400 rows, in a local folder.
func BenchmarkBackfill(b *testing.B) {
	w := newUpstream(b, nil)
	for b.Loop() {
		b.StopTimer()
		c := w.collector(b.TempDir())
		b.StartTimer()
		w.collect(c, w.weeks(13), "shop")
	}
	b.ReportMetric(float64(b.N)*91/b.Elapsed().Minutes(), "days/min")
}

// BenchmarkDay measures the daily run over a thousand properties that lack one day, and its peak memory.
func BenchmarkDay(b *testing.B) {
	const properties = 1000
	w := newUpstream(b, nil)
	ids := make([]string, properties)
	for i := range ids {
		ids[i] = fmt.Sprintf("property%d", i)
	}
	var peak atomic.Uint64
	var asked atomic.Int64
	w.fails = func(upstream.Target, translate.Query) error {
		if asked.Add(1)%500 == 0 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
		}
		return nil
	}
	folder := b.TempDir()
	for b.Loop() {
		b.StopTimer()
		w.passDay()
		until, since := w.anchor(), w.anchor()
		c := w.collector(folder)
		b.StartTimer()
		if _, err := c.Collect(context.Background(), w.properties(ids...), Span{Since: &since, Until: &until}); err != nil {
			b.Fatal(err)
		}
		w.calls()
	}
	b.ReportMetric(float64(peak.Load())/(1<<20), "live-MiB")
	b.ReportMetric(float64(b.N)*properties/b.Elapsed().Minutes(), "days/min")
}
