package collector

import (
	"sara/archive"
	"sara/translate"
)

// gap is a day with the dimensions that are missing or not final.
type gap struct {
	day        translate.Date
	dimensions []translate.Dimension
	archived   bool // under each dimension, but not final under all
}

// bounds returns the first and the last day that can be collected: days that the upstream has, the plan keeps, and the span allows.
func (r *run) bounds(retentionMonths int) (first, last translate.Date) {
	window := translate.NewWindow(r.anchor, retentionMonths)
	first, last = max(window.UpstreamStart, window.Earliest), window.Anchor
	if r.span.Since != nil {
		first = max(first, *r.span.Since)
	}
	if r.span.Until != nil {
		last = min(last, *r.span.Until)
	}
	return first, last
}

// estimate returns roughly how many days of each property are to be collected, from the recorded states of their archives: reading all
// the archives first would double the listings of a run.
func (r *run) estimate(properties []Property) map[string]int {
	days := make(map[string]int, len(properties))
	for _, p := range properties {
		if p.RetentionMonths <= 0 || p.Archived {
			continue
		}
		first, last := r.bounds(p.RetentionMonths)
		n := max(0, int(last-first)+1)
		if s := p.State; s.First != nil && s.Last != nil {
			n -= max(0, int(min(last, *s.Last, r.anchor-ProvisionalDays)-max(first, *s.First))+1)
		}
		days[p.PropertyID] = n
	}
	return days
}

// gaps returns what there is to collect for a property, the oldest day first. Damaged months are left out, because their days cannot be
// archived.
func (r *run) gaps(inventory archive.Inventory, damaged *archive.DamageError, retentionMonths int) []gap {
	first, last := r.bounds(retentionMonths)
	var gaps []gap
	for day := first; day <= last; day++ {
		if damaged.Has(day) {
			continue
		}
		g := gap{day: day, archived: true}
		for _, by := range archive.Dimensions() {
			g.archived = g.archived && inventory[by].Has(day)
			if !inventory[by].HasFinal(day) {
				g.dimensions = append(g.dimensions, by)
			}
		}
		if len(g.dimensions) > 0 {
			gaps = append(gaps, g)
		}
	}
	return gaps
}
