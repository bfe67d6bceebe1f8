package archive

import (
	"context"
	"errors"
	"fmt"

	"sara/translate"
)

// Missing returns the days of a range that are not archived under a dimension, in order, including the days of damaged objects.
// It decodes no rows.
func (h *History) Missing(ctx context.Context, property string, by translate.Dimension, r translate.DateRange) (
	[]translate.Date, *DamageError, error) {
	w := walk{by: by, days: r, next: r.Start}
	damaged, err := each(ctx, h, property, r, h.readyLedger, h.loadLedger, func(l *ledger) error {
		first, last := l.overlap(r)
		for day := first; day < last; day++ {
			if _, archived := l.source(by, day); archived {
				w.archived(l.month + translate.Date(day))
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list the days of %s %s: %w", DimensionName(by), r.Phrase(), err)
	}
	w.missUntil(r.End + 1)
	return w.result.Missing, damaged, nil
}

// Bounds returns the first and the last archived day of a property, on or after a day, under a dimension, or under any for ByDate; ok is
// false if there is none. Damaged objects are skipped.
func (h *History) Bounds(ctx context.Context, property string, by translate.Dimension, from translate.Date) (
	r translate.DateRange, ok bool, err error) {
	months, err := h.list(ctx, property)
	for len(months) > 0 && months[0].month.AddMonths(1) <= from {
		months = months[1:]
	}
	for len(months) > 0 && err == nil && !ok {
		r, ok, err = h.boundsIn(ctx, property, months[0], by, from)
		months = months[1:]
	}
	for found := false; len(months) > 0 && err == nil && !found; {
		last := len(months) - 1
		var later translate.DateRange
		if later, found, err = h.boundsIn(ctx, property, months[last], by, from); found {
			r.End = later.End
		}
		months = months[:last]
	}
	if err != nil {
		return translate.DateRange{}, false, fmt.Errorf("find the first and the last day: %w", err)
	}
	return r, ok, nil
}

// boundsIn returns the first and the last archived day of a month, on or after a day.
func (h *History) boundsIn(ctx context.Context, property string, m monthObject, by translate.Dimension, from translate.Date) (
	r translate.DateRange, ok bool, err error) {
	l, err := h.loadLedger(ctx, property, m)
	if err != nil || l == nil {
		return r, false, unlessDamaged(err)
	}
	for day := range l.days() {
		if _, archived := l.source(by, day); archived && l.month+translate.Date(day) >= from {
			if r.End = l.month + translate.Date(day); !ok {
				r.Start, ok = r.End, true
			}
		}
	}
	return r, ok, nil
}

// Begins returns the first archived day, on or after a day, that has impressions; ok is false if there is none. It reads months in
// order until it finds the day, and skips damaged objects.
func (h *History) Begins(ctx context.Context, property string, from translate.Date) (first translate.Date, ok bool, err error) {
	months, err := h.list(ctx, property)
	for i := 0; i < len(months) && err == nil && !ok; i++ {
		if months[i].month.AddMonths(1) > from {
			first, ok, err = h.beginsIn(ctx, property, months[i], from)
		}
	}
	if err != nil {
		return 0, false, fmt.Errorf("find the first figures: %w", err)
	}
	return first, ok, nil
}

func (h *History) beginsIn(ctx context.Context, property string, m monthObject, from translate.Date) (translate.Date, bool, error) {
	o, err := h.load(ctx, property, m)
	if err != nil || o == nil {
		return 0, false, unlessDamaged(err)
	}
	w := walk{by: translate.ByDate, days: translate.DateRange{Start: from, End: m.month.AddMonths(1) - 1}, next: max(from, m.month)}
	if err := w.visit(o); err != nil {
		return 0, false, unlessDamaged(err)
	}
	rows := w.totals.Rows()
	for i := range rows.Len() {
		if rows.Metrics(i).Impressions > 0 {
			day, err := translate.ParseDate(string(rows.Key(i)))
			return day, err == nil, err
		}
	}
	return 0, false, nil
}

// unlessDamaged returns err, or nil if it concerns a damaged object.
func unlessDamaged(err error) error {
	if errors.As(err, new(*ObjectError)) {
		return nil
	}
	return err
}
