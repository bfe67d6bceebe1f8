package gscsim

import (
	"cmp"
	"context"
	"slices"
)

// row is one group of an answer. The numeric order of keys is the order of their texts.
type row struct {
	key                 uint64
	day                 day
	clicks, impressions uint64
	positions           uint64
}

// grouping adds cells up into rows by their key. It belongs to one evaluation.
//
// The race detector skips the functions that run for every cell, row and day, in which the tests of other packages would spend a
// fifth of their time. They read an immutable world and write what only their evaluation has; run, and what keeps rows or totals for
// other evaluations, is instrumented.
type grouping struct {
	world      *world
	dimensions []dimension // without the date
	sizes      []uint64
	dense      []int32 // place in rows + 1, by key, where the keys are few
	sparse     map[uint64]int32
	rows       []row
}

// maxDense is the number of possible keys up to which a slice holds the places.
const maxDense = 1 << 21

// hourSlots is the size of the hour dimension: a day can have 25 hours.
const hourSlots = 25

func newGrouping(w *world, dimensions []dimension) *grouping {
	g := &grouping{world: w}
	for _, d := range dimensions {
		if d == byDate {
			continue
		}
		size := w.size(d)
		g.dimensions, g.sizes = append(g.dimensions, d), append(g.sizes, size)
	}
	const usual = 1024 // rows; growing to this size costs as much as adding up a day
	keys := g.keys()
	if keys <= maxDense {
		g.dense = make([]int32, keys)
	} else {
		g.sparse = map[uint64]int32{}
	}
	g.rows = make([]row, 0, min(keys, usual))
	return g
}

// size returns the number of keys of a dimension other than the date.
func (w *world) size(d dimension) uint64 {
	switch d {
	case byQuery:
		return uint64(len(w.queries))
	case byPage:
		return uint64(len(w.pages))
	case byCountry:
		return uint64(len(w.countries))
	case byDevice:
		return uint64(len(devices()))
	case byAppearance:
		return uint64(len(w.appearances))
	default:
		return hourSlots
	}
}

// keyOf returns the key of a cell's group; ok is false for a cell without a value in a dimension.
//
//go:norace
func (g *grouping) keyOf(c *cell) (uint64, bool) {
	key := uint64(0)
	for i, d := range g.dimensions {
		value := int32(none)
		switch d {
		case byQuery:
			value = c.query
		case byPage:
			value = c.page
		case byCountry:
			value = int32(c.country)
		case byDevice:
			value = int32(c.device)
		case byAppearance:
			value = int32(g.world.appearance[c.page])
		case byHour:
			value = int32(c.hour)
		}
		if value == none {
			return 0, false
		}
		key = key*g.sizes[i] + uint64(value)
	}
	return key, true
}

//go:norace
func (g *grouping) rowOf(key uint64) *row {
	if g.dense != nil {
		place := &g.dense[key]
		if *place == 0 {
			g.rows = append(g.rows, row{key: key})
			*place = int32(len(g.rows))
		}
		return &g.rows[*place-1]
	}
	place, ok := g.sparse[key]
	if !ok {
		place = int32(len(g.rows))
		g.rows = append(g.rows, row{key: key})
		g.sparse[key] = place
	}
	return &g.rows[place]
}

//go:norace
func (g *grouping) add(key, clicks, impressions, positions uint64) {
	r := g.rowOf(key)
	r.clicks += clicks
	r.impressions += impressions
	r.positions += positions
}

// take returns at least the first n rows in order, or all of them, and empties the grouping. The rows are valid until the next add.
func (g *grouping) take(n int) []row { return inOrder(g.drain(), n) }

// drain is take without the order.
//
//go:norace
func (g *grouping) drain() []row {
	if g.dense != nil {
		for _, r := range g.rows {
			g.dense[r.key] = 0
		}
	} else {
		clear(g.sparse)
	}
	rows := g.rows
	g.rows = g.rows[:0]
	return rows
}

// inOrder sorts rows by clicks descending, then keys ascending, and returns at least the first n, or all of them.
//
//go:norace
func inOrder(rows []row, n int) []row {
	// Most rows of a day have no clicks. They come last and are rarely needed, so do not sort them.
	clicked := 0
	for i := range rows {
		if rows[i].clicks > 0 {
			rows[i], rows[clicked] = rows[clicked], rows[i]
			clicked++
		}
	}
	if clicked >= n {
		rows = rows[:clicked]
	}
	slices.SortFunc(rows, func(a, b row) int {
		if a.clicks != b.clicks {
			return cmp.Compare(b.clicks, a.clicks)
		}
		return cmp.Compare(a.key, b.key)
	})
	return rows
}

// maxRowsPerDay is how many rows a grouping yields for one day; rows with the fewest clicks are dropped.
const maxRowsPerDay = 50000

// evaluation computes one answer.
type evaluation struct {
	*parsedQuery
	world      *world
	extent     extent
	filterMask *filterMask
	hours      func(day) int
	perDay     int // maxRowsPerDay
	loaded     *loadedDay
}

// loadedDay holds the cells of a day, which evaluations of one site can share.
type loadedDay struct {
	cells []cell
	day   day
	ok    bool // false: none is loaded yet
}

// run returns the rows from start on, at most limit of them.
func (e *evaluation) run(ctx context.Context) ([]row, error) {
	if e.groupedBy(byDate) || e.groupedBy(byHour) {
		return e.runDaily(ctx)
	}
	total := newGrouping(e.world, e.dimensions)
	var daily *grouping // for days that need truncation
	from, to := e.span()
	for d := from; d <= to; d++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if e.needsTotals(total, d) {
			e.addTotals(total, d)
			continue
		}
		e.load(d)
		if len(e.loaded.cells) <= e.perDay || total.keys() <= uint64(e.perDay) {
			e.addCells(total)
			continue
		}
		if daily == nil {
			daily = newGrouping(e.world, e.dimensions)
		}
		e.addCells(daily)
		rows := daily.drain()
		if len(rows) > e.perDay { // sorting every day would dominate the cost
			rows = inOrder(rows, e.perDay)[:e.perDay]
		}
		for _, r := range rows {
			total.add(r.key, r.clicks, r.impressions, r.positions)
		}
	}
	return paged(total.take(e.start+e.limit), e.start, e.limit), nil
}

// keys returns the number of possible groups.
func (g *grouping) keys() uint64 {
	n := uint64(1)
	for _, size := range g.sizes {
		n *= size
	}
	return n
}

// runDaily answers groupings by date or hour, day by day, until it has the requested rows.
//
//go:norace
func (e *evaluation) runDaily(ctx context.Context) ([]row, error) {
	g := newGrouping(e.world, e.dimensions)
	var answer []row
	skip := e.start
	from, to := e.span()
	for d := from; d <= to && len(answer) < e.limit; d++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		switch {
		case e.state == finalData && d > e.extent.final: // listed, but not published
		case e.needsTotals(g, d):
			e.addTotals(g, d)
		default:
			e.load(d)
			e.addCells(g)
		}
		if e.listsDays() && !e.extent.omitsEmpty {
			g.rowOf(0) // a day without figures has a row too
		}
		rows := g.take(e.perDay)
		rows = rows[:min(len(rows), e.perDay)]
		if e.groupedBy(byHour) {
			e.sortByHour(g, rows)
		}
		first := len(answer)
		answer = append(answer, paged(rows, skip, e.limit-first)...)
		skip -= min(skip, len(rows))
		for i := first; i < len(answer); i++ {
			answer[i].day = d
		}
	}
	return answer, nil
}

// sortByHour orders the hours of a day, and keeps the order within an hour.
func (e *evaluation) sortByHour(g *grouping, rows []row) {
	at := slices.Index(g.dimensions, byHour)
	below := uint64(1)
	for _, size := range g.sizes[at+1:] {
		below *= size
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Compare(a.key/below%hourSlots, b.key/below%hourSlots)
	})
}

// load computes the cells of a day that have been collected by now.
func (e *evaluation) load(d day) {
	if e.loaded.ok && e.loaded.day == d {
		return
	}
	cells := e.world.appendDay(e.loaded.cells[:0], d)
	hours := e.hours(d)
	if hours != 24 {
		for i := range cells {
			cells[i].hour = uint8(int(cells[i].hour) * (hours - 1) / 23)
		}
	}
	if d == e.extent.today {
		cells = slices.DeleteFunc(cells, func(c cell) bool { return int(c.hour) >= e.extent.hoursDone })
	}
	*e.loaded = loadedDay{cells: cells, day: d, ok: true}
}

//go:norace
func (e *evaluation) addCells(g *grouping) {
	for i := range e.loaded.cells {
		c := &e.loaded.cells[i]
		if c.lower && e.aggregation == propertyAggregation || !e.filterMask.passes(e.world, c) {
			continue
		}
		if key, ok := g.keyOf(c); ok {
			g.add(key, uint64(c.clicks), uint64(c.impressions), uint64(c.positions))
		}
	}
}

func paged(rows []row, start, limit int) []row {
	start = min(start, len(rows))
	return rows[start:min(len(rows), start+limit)]
}
