package gscsim

import (
	"reflect"
	"testing"
)

// The totals of days equal the sums of their cells, whether they are computed or cached.
func TestTotalsEqualTheCells(t *testing.T) {
	const from, to, first, today = 20035, 20052, 20040, 20052 // five days without data; today is half over
	w := newWorld(worldKey{seed: 1, url: "sc-domain:example.com", brand: "example", firstDay: day(first).String(), queries: 400, pages: 50})
	for _, dimensions := range [][]dimension{nil, {byDate}} {
		for _, aggregation := range []aggregation{pageAggregation, propertyAggregation} {
			e := &evaluation{
				parsedQuery: &parsedQuery{from: from, to: to, dimensions: dimensions, aggregation: aggregation, state: allData, limit: 1000},
				world:       w, extent: extent{first: 20000, final: today - 2, clock: clock{today: today, hoursDone: 12}}, filterMask: &filterMask{},
				hours: func(day) int { return 24 }, perDay: maxRowsPerDay, loaded: new(loadedDay),
			}
			want := newGrouping(w, nil)
			var wanted []row
			for d := day(from); d <= to; d++ {
				e.load(d)
				e.addCells(want)
				if dimensions != nil {
					want.rowOf(0)
					for _, r := range want.take(1) {
						wanted = append(wanted, row{day: d, clicks: r.clicks, impressions: r.impressions, positions: r.positions})
					}
				}
			}
			if dimensions == nil {
				wanted = want.take(1)
			}
			for range 2 {
				if rows, err := e.run(t.Context()); err != nil || !reflect.DeepEqual(rows, wanted) {
					t.Errorf("by %v, aggregation %v: %v, %v, want %v", dimensions, aggregation, rows, err, wanted)
				}
			}
		}
	}
	if n := len(w.totals.days); n != to-from {
		t.Errorf("the totals of %d days are kept, want all but today's: %d", n, to-from)
	}
}
