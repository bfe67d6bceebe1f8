package gscsim

import (
	"cmp"
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
// The race detector skips the functions that run for every cell, row and day: instrumented, they would take a fifth of the time of
// other packages' tests. They read an immutable world and write only what belongs to their evaluation; run is instrumented, and so is
// whatever keeps rows or totals for other evaluations.
type grouping struct {
	world      *world
	dimensions []dimension // without the date
	sizes      []uint64
	dense      []int32 // index into rows + 1, by key, if there are few keys
	sparse     map[uint64]int32
	rows       []row
}

// maxDense is the number of possible keys up to which a slice holds the indexes.
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

// keys returns the number of possible groups.
func (g *grouping) keys() uint64 {
	n := uint64(1)
	for _, size := range g.sizes {
		n *= size
	}
	return n
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

// drain is take without the ordering.
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
	// Most rows of a day have no clicks. They come last and are rarely needed, so they are not sorted.
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
