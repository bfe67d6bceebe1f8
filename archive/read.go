package archive

import (
	"context"
	"fmt"

	"sara/translate"
)

// A Result holds the archived figures of a property for one dimension and a range of days.
type Result struct {
	// Rows has one row for each key: clicks and impressions are summed, and the position is weighted by impressions. They are ordered
	// by clicks descending, then key. For ByDate there is one row for each day with traffic, keyed by its date, in order. The rows
	// belong to the caller. Rows after the requested first ones are only counted. Nil if there are Sums.
	Rows *translate.Rows
	// Sums are the same in any order, to be merged with other rows: the result of History.Sum. They are valid until Release.
	Sums *translate.Sums
	// Missing lists the days of the range that are not archived, in order. Last is the last archived day; nil if there is none.
	Missing []translate.Date
	Last    *translate.Date
	// Damage lists the objects of the range that cannot be used, and whose days are Missing; nil if there are none.
	Damage *DamageError
	// Derived counts the days whose total is not archived, as may be for imported days, and so is the sum of another dimension.
	// It is zero for all dimensions except ByDate.
	Derived int
	// Truncated means that Rows may lack keys, because a day has as many queries or pages as the archive keeps.
	Truncated bool

	lent *tally   // holds the Sums
	to   *History // its owner
}

// Release frees the memory of the Sums, if there are any. After it, no copy of the result may use them.
func (r *Result) Release() {
	if r.lent != nil {
		r.to.takeBack(r.lent)
		r.Sums, r.lent = nil, nil
	}
}

// Read answers for a property as the upstream would for the dimension and range. It fetches each month once. The days of damaged objects
// are reported as missing; all other months answer. first is how many of the first rows the caller needs, or 0 for all; it has no effect
// on ByDate.
func (h *History) Read(ctx context.Context, property string, by translate.Dimension, r translate.DateRange, first int) (Result, error) {
	if by == translate.ByDate {
		return h.read(ctx, property, &walk{by: by, days: r, next: r.Start})
	}
	result, err := h.Sum(ctx, property, by, r)
	if err != nil {
		return Result{}, err
	}
	result.Rows = result.Sums.Rows(first)
	result.Release()
	return result, nil
}

// Sum is like Read for all rows, without ranking them, except for ByDate. The result has Sums, and must be released.
func (h *History) Sum(ctx context.Context, property string, by translate.Dimension, r translate.DateRange) (Result, error) {
	t, _ := h.tallies.Get().(*tally)
	t.names = h.namesOf(property, by)
	result, err := h.read(ctx, property, &walk{by: by, days: r, next: r.Start, tally: t})
	h.keepNames(property, by, t.names)
	if err != nil {
		h.takeBack(t)
		return Result{}, err
	}
	result.Sums, result.lent, result.to = &t.Sums, t, h
	return result, nil
}

func (h *History) takeBack(t *tally) {
	t.reset()
	h.tallies.Put(t)
}

func (h *History) read(ctx context.Context, property string, w *walk) (Result, error) {
	load := func(ctx context.Context, property string, m monthObject) (*object, error) {
		o, err := h.load(ctx, property, m)
		if err == nil && o != nil {
			err = o.decodeFor(w.by, w.days) // here, months are decoded in parallel, and one that cannot be decoded counts as damaged
		}
		return o, err
	}
	ready := func(property string, m monthObject) *object { return h.ready(property, m, w.by, w.days) }
	damaged, err := each(ctx, h, property, w.days, ready, load, w.visit)
	if err != nil {
		return Result{}, fmt.Errorf("read %s %s: %w", DimensionName(w.by), w.days.Phrase(), err)
	}
	result := w.finish()
	result.Damage = damaged
	return result, nil
}

// overlap returns the days of the month, from 0, that lie in r: first is included, last is not.
func (l *ledger) overlap(r translate.DateRange) (first, last int) {
	first = int(max(r.Start, l.month) - l.month)
	last = min(int(r.End-l.month)+1, l.days())
	return first, last
}

// source returns the dimension that a day is read from: the requested one or, if a total is not archived, the dimension
// whose sum is closest to it. Devices and countries add up to the total; pages and queries are truncated to TopRows.
func (l *ledger) source(by translate.Dimension, day int) (source translate.Dimension, archived bool) {
	if l.states[by][day] != absent {
		return by, true
	}
	if by == translate.ByDate {
		for _, part := range [...]translate.Dimension{translate.ByDevice, translate.ByCountry, translate.ByPage, translate.ByQuery} {
			if l.states[part][day] != absent {
				return part, true
			}
		}
	}
	return by, false
}

// sources returns the dimensions that a range of days is read from.
func (l *ledger) sources(by translate.Dimension, r translate.DateRange) (used [dimensionCount]bool) {
	used[by] = true
	if by != translate.ByDate {
		return used
	}
	first, last := l.overlap(r)
	for day := first; day < last; day++ {
		source, _ := l.source(by, day)
		used[source] = true
	}
	return used
}

// A walk visits the months of a range in order and adds up their days.
type walk struct {
	by     translate.Dimension
	days   translate.DateRange
	next   translate.Date // the first day that is neither archived nor missing so far
	result Result
	tally  *tally                // of all dimensions except ByDate
	totals translate.RowsBuilder // of ByDate
	date   []byte                // scratch space for its keys
}

func (w *walk) visit(o *object) error {
	first, last := o.overlap(w.days)
	for day := first; day < last; day++ {
		source, archived := o.source(w.by, day)
		if !archived {
			continue
		}
		w.archived(o.month + translate.Date(day))
		if w.by != translate.ByDate {
			continue
		}
		if err := w.addTotal(o, source, day); err != nil {
			return err
		}
	}
	if w.by == translate.ByDate {
		return nil
	}
	rows, err := o.table(w.by)
	if err != nil {
		return err
	}
	w.tally.add(rows, first, last)
	if keepsTop(w.by) {
		w.result.Truncated = w.result.Truncated || rows.hasFullDay(first, last)
	}
	return nil
}

// archived records a day that is archived. The days between the previous one and it are missing.
func (w *walk) archived(day translate.Date) {
	w.missUntil(day)
	w.next = day + 1
}

func (w *walk) missUntil(day translate.Date) {
	for ; w.next < day; w.next++ {
		w.result.Missing = append(w.result.Missing, w.next)
	}
}

// addTotal adds the total of a day, from the dimension that has it.
func (w *walk) addTotal(o *object, source translate.Dimension, day int) error {
	t, err := o.table(source)
	if err != nil {
		return err
	}
	rows := t.span(day, day+1)
	var total translate.Metrics
	switch {
	case source != w.by:
		total = totalOf(rows)
		w.result.Derived++
	case len(rows) == 0:
		return nil // a day without traffic
	default:
		total = rows[0].metrics()
	}
	w.date = (o.month + translate.Date(day)).Append(w.date[:0])
	w.totals.Add(w.date, total)
	return nil
}

func (w *walk) finish() Result {
	if w.next > w.days.Start {
		w.result.Last = new(w.next - 1)
	}
	w.missUntil(w.days.End + 1)
	if w.by == translate.ByDate {
		w.result.Rows = w.totals.Rows()
	}
	return w.result
}
