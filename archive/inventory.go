package archive

import (
	"context"
	"fmt"
	"math"
	"slices"

	"sara/translate"
)

// An Inventory lists the archived days of a property. Dimensions with no archived days are absent.
type Inventory map[translate.Dimension]Coverage

// Bounds returns the first and the last archived day under any dimension; nil if there is none.
func (i Inventory) Bounds() (first, last *translate.Date) {
	for _, c := range i {
		if first == nil || c.First < *first {
			first = &c.First
		}
		if last == nil || c.Last > *last {
			last = &c.Last
		}
	}
	return first, last
}

// EmptyMonths returns the first day of each month, between the first and the last archived day, that has no archived days, in order.
func (i Inventory) EmptyMonths() (months []translate.Date) {
	first, last := i.Bounds()
	if first == nil {
		return nil
	}
	for month := first.MonthStart(); month <= *last; month = month.AddMonths(1) {
		if !i.HasAny(translate.DateRange{Start: month, End: month.AddMonths(1) - 1}) {
			months = append(months, month)
		}
	}
	return months
}

// HasAny reports whether a day of a range is archived under any dimension.
func (i Inventory) HasAny(r translate.DateRange) bool {
	for day := r.Start; day <= r.End; day++ {
		for _, c := range i {
			if c.Has(day) {
				return true
			}
		}
	}
	return false
}

// Coverage is the days that are archived under one dimension, with or without traffic. The zero value has no days.
type Coverage struct {
	Days        int // the number of archived days
	First, Last translate.Date
	Missing     []translate.Date // days between First and Last that are not archived, in order
	Provisional []translate.Date // archived days that are not final yet, in order
}

// Has reports whether a day is archived.
func (c Coverage) Has(day translate.Date) bool {
	_, missing := slices.BinarySearch(c.Missing, day)
	return c.Days > 0 && day >= c.First && day <= c.Last && !missing
}

// HasFinal reports whether a day is archived and final.
func (c Coverage) HasFinal(day translate.Date) bool {
	_, provisional := slices.BinarySearch(c.Provisional, day)
	return c.Has(day) && !provisional
}

// Days returns the archived days of a property. It decodes no rows, and reads a month only if it has changed since the last call. With a
// *DamageError it still returns the days of all undamaged months.
func (h *History) Days(ctx context.Context, property string) (Inventory, error) {
	always := translate.DateRange{Start: 0, End: math.MaxInt32}
	inventory := make(Inventory)
	damaged, err := each(ctx, h, property, always, h.readyLedger, h.loadLedger, func(l *ledger) error {
		for _, by := range Dimensions() {
			for day, s := range l.states[by][:l.days()] {
				if s != absent {
					inventory.add(by, l.month+translate.Date(day), s)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the days: %w", err)
	}
	if damaged != nil {
		return inventory, fmt.Errorf("list the days: %w", damaged)
	}
	return inventory, nil
}

// add adds an archived day. Days are added in ascending order.
func (i Inventory) add(by translate.Dimension, day translate.Date, s state) {
	c := i[by]
	if c.Days == 0 {
		c.First, c.Last = day, day
	}
	for missing := c.Last + 1; missing < day; missing++ {
		c.Missing = append(c.Missing, missing)
	}
	c.Days, c.Last = c.Days+1, day
	if !s.isFinal() {
		c.Provisional = append(c.Provisional, day)
	}
	i[by] = c
}

// readyLedger returns the ledger of a month from the cache; nil if it is not cached.
func (h *History) readyLedger(property string, m monthObject) *ledger {
	l, _ := h.ledgers.Get(revisionKey{property: property, month: m.month, revision: m.revision})
	return l
}

func (h *History) loadLedger(ctx context.Context, property string, m monthObject) (*ledger, error) {
	if l := h.readyLedger(property, m); l != nil {
		return l, nil
	}
	o, err := h.load(ctx, property, m)
	if err != nil || o == nil {
		return nil, err
	}
	return &o.ledger, nil
}
