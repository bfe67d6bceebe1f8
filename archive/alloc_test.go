//go:build !race

package archive

import (
	"fmt"
	"runtime"
	"testing"

	"sara/translate"
)

// A read of decoded months allocates the result, and nothing per row or month.
func TestWarmReadAllocatesLittle(t *testing.T) {
	const budget = 10
	h := newTestHistory(t)
	first := day(t, "2024-01-01")
	var days []Day
	for i := range translate.Date(120) {
		days = append(days, Day{Date: first + i, Dimension: translate.ByQuery, Rows: queries(20+int(i), 500), Final: true})
	}
	if err := h.Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	for _, length := range []translate.Date{3, 110} {
		r := translate.DateRange{Start: first + 5, End: first + 5 + length}
		read := func() {
			if result, err := h.Read(t.Context(), testProperty, translate.ByQuery, r, 0); err != nil || result.Rows.Len() < 20 {
				t.Fatal(result.Rows, err)
			}
		}
		read()
		if n := testing.AllocsPerRun(20, read); n > budget {
			t.Errorf("%d days: %v allocations, budget %d", length, n, budget)
		}
	}
}

// The cache bounds the memory of months, however small they are: with their metadata, and without those that it has evicted.
func TestCachedMonthsTakeTheMemoryThatTheyWeigh(t *testing.T) {
	const properties = 100
	b := newCounting(t)
	first, name := day(t, "2024-01-01"), func(i int) string { return fmt.Sprintf("small-%d", i) }
	for i := range properties {
		var days []Day
		for d := range translate.Date(31) {
			days = append(days, Day{Date: first + d, Dimension: translate.ByQuery, Rows: queries(1, 10), Final: true})
		}
		if err := historyOf(t, HistoryConfig{Bucket: b}).Merge(t.Context(), name(i), days); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []int64{256 << 10, 1 << 30} {
		h := historyOf(t, HistoryConfig{Bucket: b, CacheBytes: size})
		before := heapInUse()
		for i := range properties {
			if _, err := h.Read(t.Context(), name(i), translate.ByQuery, translate.DateRange{Start: first, End: first + 30}, 1); err != nil {
				t.Fatal(err)
			}
		}
		months := h.months.values.Weight()
		if taken := heapInUse() - before - properties*2<<10; taken > months { // listings, ledgers and names
			t.Errorf("with a cache of %d bytes, %d bytes of months take %d", size, months, taken)
		}
		runtime.KeepAlive(h)
	}
}

func heapInUse() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools held
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
