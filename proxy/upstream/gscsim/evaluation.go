package gscsim

import (
	"cmp"
	"context"
	"slices"
)

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
	ok    bool // false: nothing is loaded yet
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
