//go:build !race

package translate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// The number of allocations depends neither on the number of rows nor on their escapes.
func TestEnvelopeAllocationsAreIndependentOfRows(t *testing.T) {
	few, many := upstreamBody(100), upstreamBody(WideSample)
	for _, order := range []string{"-clicks", "impressions"} {
		f := func(few, many []byte) {
			t.Helper()
			fewer, more := envelopeAllocations(t, few, order), envelopeAllocations(t, many, order)
			const runtimes = 2 // occasional allocations of the runtime
			const steps = 6    // of growth, to the rows of the wide sample
			if more > fewer+steps+runtimes || more > 20+runtimes {
				t.Errorf("%s: %v allocations for 100 rows, %v for %d", order, fewer, more, WideSample)
			}
		}
		f(few, many)
		f(compact(t, few), compact(t, many))
	}
}

// A RowsReader allocates the rows, and next to nothing else.
func TestRowsReaderAllocations(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would drop the memory that the reader keeps
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))  // a goroutine that moves to another processor does not find it
	var reader RowsReader
	for _, n := range []int{1, NarrowSample} {
		text := upstreamBody(n)
		var rows *Rows
		read := func() {
			var err error
			if rows, err = reader.Read(bytes.NewReader(text), ByQuery); err != nil {
				t.Fatal(err)
			}
		}
		read()
		if allocs := testing.AllocsPerRun(10, read); allocs > 10 {
			t.Errorf("%v allocations for %d rows", allocs, n)
		}
		const runs, little = 10, 1 << 10
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			read()
		}
		runtime.ReadMemStats(&after)
		if allocated := int(after.TotalAlloc-before.TotalAlloc) / runs; allocated > rows.Size()+little {
			t.Errorf("%d bytes for %d rows of %d", allocated, n, rows.Size())
		}
	}
}

func envelopeAllocations(t *testing.T, body []byte, order string) float64 {
	params := &Params{Limit: 1000, Order: parseOrder(order), Period: Period{Preset: DefaultPreset}}
	return testing.AllocsPerRun(1, func() {
		rows, err := ReadRows(bytes.NewReader(body), ByQuery)
		if err != nil {
			t.Fatal(err)
		}
		breakdownHead(nil, params, ByQuery, rows, Origin{Source: SourceLive})
	})
}

// The last page of a full sample allocates no more memory than the first, which sorts its own rows: the ranking is kept with the copy.
func TestPageAllocationsAreIndependentOfTheOffset(t *testing.T) {
	rows := searchRows(t, WideSample)
	for _, order := range []string{"-clicks", "impressions", "-key"} {
		ranked := rows.Ranked(rows.Rank(parseOrder(order)))
		const runs = 5
		page := func(offset int) (bytes uint64, allocs float64) {
			p := &Params{Limit: 1000, Offset: offset, Order: parseOrder(order)}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			allocs = testing.AllocsPerRun(runs-1, func() { breakdownHead(nil, p, ByQuery, ranked, Origin{Source: SourceLive}) })
			runtime.ReadMemStats(&after)
			return (after.TotalAlloc - before.TotalAlloc) / runs, allocs
		}
		first, firstAllocs := page(0)
		last, lastAllocs := page(24_000)
		if last > first+first/20 || lastAllocs > firstAllocs+1 {
			t.Errorf("by %s the first page allocates %d bytes in %v allocations, the last one %d in %v", order, first, firstAllocs, last, lastAllocs)
		}
		t.Logf("by %s: %d and %d bytes, %v and %v allocations", order, first, last, firstAllocs, lastAllocs)
	}
}

// A ranking holds four bytes a row, and none if the rows are in its order.
func TestRankingSize(t *testing.T) {
	rows := searchRows(t, WideSample)
	if size := rows.Rank(parseOrder("position")).Size(); size > 4*WideSample+64 {
		t.Errorf("a ranking holds %d bytes", size)
	}
	merged := new(Merger).Merge(ByQuery, 0, rows, searchRows(t, 10))
	if size := merged.Rank(parseOrder(DefaultOrder)).Size(); size > 64 {
		t.Errorf("the ranking of ranked rows holds %d bytes", size)
	}
}

// Only the result of a merge is allocated: the rows, their keys and their figures.
func TestMergeAllocations(t *testing.T) {
	var m Merger
	parts := []Part{searchRows(t, 1000), searchRows(t, 400)}
	if allocs := testing.AllocsPerRun(10, func() { m.Merge(ByQuery, 0, parts...) }); allocs > 5 {
		t.Errorf("%v allocations", allocs)
	}
}

// The Rows and their slices, some of these again for each group; encoding needs a buffer.
func TestParseRowsAllocations(t *testing.T) {
	discard := bufio.NewWriter(io.Discard)
	var decoder Decoder
	for _, n := range []int{1, 1000, WideSample} {
		data := encoded(new(Merger).Merge(ByQuery, 0, searchRows(t, n), new(Rows))) // ranked
		var rows *Rows
		parse := func() {
			var err error
			if rows, err = decoder.Rows(bytes.NewReader(data), 0); err != nil {
				t.Fatal(err)
			}
		}
		if allocs := testing.AllocsPerRun(5, parse); allocs > 16 {
			t.Errorf("%v allocations to decode %d rows", allocs, n)
		}
		first := func() {
			if _, err := decoder.Rows(bytes.NewReader(data), 1); err != nil {
				t.Fatal(err)
			}
		}
		if allocs := testing.AllocsPerRun(5, first); allocs > 6 {
			t.Errorf("%v allocations to decode the first of %d rows", allocs, n)
		}
		if allocs := testing.AllocsPerRun(5, func() { _ = rows.Encode(discard) }); allocs > 2 {
			t.Errorf("%v allocations to encode %d rows", allocs, n)
		}
	}
}

// Forged counts must not make the decoder of rows allocate.
func TestForgedCountsAllocateLittle(t *testing.T) {
	forged := fields([]any{1 << 40, math.MaxInt32, 0, 0, 0, 0})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := decodeRows(forged); err == nil {
		t.Error("forged counts were accepted")
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20 {
		t.Errorf("%d bytes allocated", allocated)
	}
}

// compact returns the same JSON without white space.
func compact(t *testing.T, text []byte) []byte {
	var dst bytes.Buffer
	if err := json.Compact(&dst, text); err != nil {
		t.Fatal(err)
	}
	return dst.Bytes()
}

func TestAppendTailAllocatesNothing(t *testing.T) {
	a := summaryHead(nil, mustParse(t, Summary(), ""), sampleSeries(t), Origin{PropertyID: "p", Source: SourceLive})
	buffer := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { buffer = AppendTail(append(buffer[:0], a...), "hit", "req_1") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// One allocation for the Params, and one for each exact date.
func TestParseAllocations(t *testing.T) {
	for query, budget := range map[string]float64{
		"": 1, "date_range=last_28d&limit=50&order_by=-ctr": 1, "start_date=2026-05-01&end_date=2026-05-31": 3,
	} {
		e, raw, w := Breakdown(), []byte(query), window()
		parse := func() {
			if _, err := Parse(e, raw, w); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(100, parse); n > budget {
			t.Errorf("%q: %v allocations, budget %v", query, n, budget)
		}
	}
}

// Each of the twenty expressions would compile to 20 MB.
func TestExpressionsAreParsedNotCompiled(t *testing.T) {
	filter := strings.Trim(oneFilter("query", "regex", strings.Repeat("(|a){1000}", 20)), "[]")
	filters := "[" + strings.Repeat(filter+",", MaxFilters-1) + filter + "]"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := ParseFilters(filters); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	if allocated > 4<<20 {
		t.Errorf("%d bytes allocated", allocated)
	}
}
