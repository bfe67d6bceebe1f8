package translate

import (
	"bytes"
	"fmt"
	"unsafe"
)

// A grid is a query for the countries or devices of each day. It answers every range of its days, because the figures of a range are
// the sums of those of its days: the upstream counts both by property, and withholds neither countries nor devices, in contrast to
// queries. Positions are exact too, see Sum. A grid costs one call, like a query for a single range.

// mostKeys bounds the keys that a grid has on one day. There are 249 countries in ISO 3166-1, and codes of the upstream's own for
// Kosovo and for unknown regions.
func (d Dimension) mostKeys() int {
	switch d {
	case ByCountry, ByDayAndCountry:
		return 260
	case ByDevice, ByDayAndDevice:
		return 3
	}
	return WideSample
}

// isGrid reports whether the dimension is that of a grid.
func (d Dimension) isGrid() bool { return d == ByDayAndCountry || d == ByDayAndDevice }

// IsFull reports whether a result with a number of rows may lack some, if all rows are needed, as those of a grid are.
func (q Query) IsFull(rows int) bool { return q.Dimension.isGrid() && rows >= q.RowLimit }

// gridQuery returns the query for the grid of countries or devices, over as many days as one call has all rows of.
func gridQuery(site string, by Dimension, w Window) Query {
	r := w.Live()
	r.Start = max(r.Start, r.End-Date(WideSample/by.mostKeys())+1)
	q := Query{Site: site, Dimension: ByDayAndCountry, Range: r, RowLimit: WideSample}
	if by == ByDevice {
		q.Dimension = ByDayAndDevice
	}
	return q
}

// A cut selects rows of a grid for one fetch.
type cut struct {
	by   Dimension // of the result: the grid's countries or devices, or ByDate
	days DateRange
	only []Condition // at most one, which gridOf accepts
}

// gridOf returns whether the rows of a dimension under conditions are a cut of a grid, and of which: of countries or of devices.
func gridOf(by Dimension, conditions []Condition) (keys Dimension, ok bool) {
	if len(conditions) == 0 {
		return by, by == ByCountry || by == ByDevice
	}
	c := conditions[0]
	if len(conditions) > 1 || c.Operator != "equals" && c.Operator != "notEquals" || by != ByDate && c.Dimension != by.String() {
		return by, false
	}
	switch c.Dimension {
	case ByCountry.String():
		return ByCountry, true
	case ByDevice.String():
		return ByDevice, true
	}
	return by, false
}

// queryGrid makes the fetch read the days of the rows of a dimension from a grid. It reports whether there is one that has all of them.
func (f *Fetch) queryGrid(by Dimension, days DateRange, conditions []Condition, s Sources) bool {
	keys, ok := gridOf(by, conditions)
	if !ok || s.NoGrids {
		return false
	}
	grid := gridQuery(s.Site, keys, s.Window)
	if days.Start < grid.Range.Start || days.End > grid.Range.End || (Gaps{Unpublished: s.Unpublished}).published(days).Days() <= 0 {
		return false
	}
	f.cut = &cut{by: by, days: days, only: conditions}
	f.query(grid, s)
	return true
}

// Read returns the rows of the fetch from those of its upstream query.
func (f Fetch) Read(rows *Rows) *Rows {
	if f.cut == nil {
		return rows
	}
	return f.cut.of(rows)
}

// ReadsAll reports whether Read returns all rows that it is given, as they are.
func (f Fetch) ReadsAll() bool { return f.cut == nil }

// ReadsGrid reports whether the rows of the upstream query are those of a grid, which show KnownDays like the daily series.
func (f Fetch) ReadsGrid() bool { return f.cut != nil }

// Shows reports whether the rows of the upstream query have figures of a day. Those that are not of single days do not show it.
func (f Fetch) Shows(rows *Rows, day Date) bool {
	return (f.Upstream.Dimension == ByDate || f.Upstream.Dimension.isGrid()) && rows.Shows(day)
}

// Shows reports whether rows by date, or those of a grid, have figures of a day.
func (r *Rows) Shows(day Date) bool {
	text := day.String()
	for i := range r.has() {
		if of, _ := splitGridKey(r.Key(i)); string(of) == text && r.metrics[i].Impressions > 0 {
			return true
		}
	}
	return false
}

// of adds up the days of a grid.
func (c *cut) of(grid *Rows) *Rows {
	var m Merger
	room := 0 // for keys
	start, end := []byte(c.days.Start.String()), []byte(c.days.End.String())
	for i := range grid.Len() {
		day, key := splitGridKey(grid.Key(i))
		if bytes.Compare(day, start) < 0 || bytes.Compare(day, end) > 0 || grid.metrics[i].Impressions == 0 || !c.accepts(key) {
			continue
		}
		if c.by == ByDate {
			key = day
		}
		if m.index.Len() == room {
			m.index.Reserve(c.mostRows())
			room += c.mostRows()
		}
		m.add(key, grid.metrics[i])
	}
	return m.rows(c.by, 0, grid.traits)
}

// mostRows returns about how many rows of gives: a day or a key each.
func (c *cut) mostRows() int {
	if c.by == ByDate {
		return c.days.Days()
	}
	return c.by.mostKeys()
}

// accepts reports whether a country or device meets the condition. The upstream compares case-insensitively.
func (c *cut) accepts(key []byte) bool {
	for _, condition := range c.only {
		if bytes.EqualFold(key, []byte(condition.Expression)) != (condition.Operator == "equals") {
			return false
		}
	}
	return true
}

const dayLength = len("2006-01-02")

// splitGridKey splits the key of a row of a grid, which Check has accepted.
func splitGridKey(key []byte) (day, rest []byte) {
	n := min(dayLength, len(key))
	return key[:n], key[n:]
}

// Check returns an error if the rows cannot be a result of the query: if a row is not of a day of its range, or a key is there twice.
// It checks only queries by date, and grids.
func (q Query) Check(rows *Rows) error {
	if q.Dimension == ByDate {
		_, err := SeriesOf(rows, q.Range)
		return err
	}
	if !q.Dimension.isGrid() {
		return nil
	}
	seen := make(map[string]struct{}, rows.Len())
	for i := range rows.Len() {
		key := rows.Key(i)
		text, rest := splitGridKey(key)
		day, err := ParseDate(string(text))
		if err != nil || day < q.Range.Start || day > q.Range.End || len(rest) == 0 {
			return fmt.Errorf("upstream row %d: %q does not begin with a day from %s to %s", i, key, q.Range.Start, q.Range.End)
		}
		name := unsafe.String(unsafe.SliceData(key), len(key)) // a copy of each would be thousands of allocations
		if _, twice := seen[name]; twice {
			return fmt.Errorf("upstream row %d: %q is there twice", i, key)
		}
		seen[name] = struct{}{}
	}
	return nil
}
