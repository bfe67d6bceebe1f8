package gscsim

import "sync"

// sums are the figures of some cells.
type sums struct{ clicks, impressions, positions uint64 }

func (s *sums) add(c *cell) {
	s.clicks += uint64(c.clicks)
	s.impressions += uint64(c.impressions)
	s.positions += uint64(c.positions)
}

// dayTotals are the totals of a day that has passed. By property, lower cells do not count.
type dayTotals struct{ byPage, byProperty sums }

// totalsCache keeps the totals of days. Long ranges are mostly queried for their totals, and generating a day's cells takes
// a thousand times as long as looking up its totals.
type totalsCache struct {
	mu   sync.Mutex
	days map[day]dayTotals // guarded by mu
}

func (t *totalsCache) get(d day) (dayTotals, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	totals, ok := t.days[d]
	return totals, ok
}

func (t *totalsCache) put(d day, totals dayTotals) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.days == nil {
		t.days = map[day]dayTotals{}
	}
	t.days[d] = totals
}

// needsTotals reports whether the answer needs only the totals of a day. Today's totals change every hour.
func (e *evaluation) needsTotals(g *grouping, d day) bool {
	return len(g.dimensions) == 0 && len(e.filters) == 0 && d != e.extent.today
}

// addTotals adds the totals of a day to the only row of a grouping without dimensions. A day without cells adds no row.
func (e *evaluation) addTotals(g *grouping, d day) {
	totals, ok := e.world.totals.get(d)
	if !ok {
		e.load(d)
		totals = totalsOf(e.loaded.cells)
		e.world.totals.put(d, totals)
	}
	sum := totals.byPage
	if e.aggregation == propertyAggregation {
		sum = totals.byProperty
	}
	if sum.impressions > 0 {
		g.add(0, sum.clicks, sum.impressions, sum.positions)
	}
}

// totalsOf runs for every cell of a day; see grouping for why the race detector skips it.
//
//go:norace
func totalsOf(cells []cell) (totals dayTotals) {
	for i := range cells {
		c := &cells[i]
		totals.byPage.add(c)
		if !c.lower {
			totals.byProperty.add(c)
		}
	}
	return totals
}
