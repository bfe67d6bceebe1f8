package collector

import (
	"context"
	"errors"
	"fmt"

	"sara/archive"
	"sara/translate"
)

// Pruned is the notice that days before a date were deleted because the plan no longer keeps them.
type Pruned struct{ Before translate.Date }

func (p Pruned) String() string { return fmt.Sprintf("deleted the days before %s", p.Before) }

// Unconfirmed is the notice that not all days before a date were deleted, although the plan no longer keeps them by the clock: the newest
// archived day of all properties does not confirm it.
type Unconfirmed struct{ Before, Newest translate.Date }

func (u Unconfirmed) String() string {
	return fmt.Sprintf("kept days before %s, which its plan does not keep, because nothing after %s is archived of any property: is the clock right?",
		u.Before, u.Newest)
}

// FirstKept returns the first day that is kept at an anchor by a plan that keeps some months; earlier days are deleted when the property
// is next collected.
func FirstKept(anchor translate.Date, retentionMonths int) translate.Date {
	return translate.NewWindow(anchor, retentionMonths).Earliest - GraceDays
}

// prune deletes the days that are past the plan's retention and the grace period.
func (r *run) prune(ctx context.Context, t *task) error {
	inventory, damage := r.config.History.Days(ctx, t.Property.PropertyID)
	if _, isDamage := errors.AsType[*archive.DamageError](damage); damage != nil && !isDamage {
		return damage
	}
	first, last := inventory.Bounds() // of the readable months; Prune keeps the others
	isPast := func(before translate.Date) bool { return first != nil && *first < before }
	if !isPast(FirstKept(r.anchor, t.Property.RetentionMonths)) {
		return damage
	}
	// By the current plan: the account may have moved to one that keeps more, and imported more days.
	now, err := r.current(ctx, t.Property)
	if err != nil {
		return fmt.Errorf("look up how much history its plan keeps: %w", err)
	}
	past := FirstKept(r.anchor, now.RetentionMonths)
	if now.RetentionMonths <= 0 || !isPast(past) {
		return damage
	}
	newest, err := r.newest(ctx, *last)
	if err != nil {
		return err
	}
	before := FirstKept(min(r.anchor, newest+translate.LongestLag), now.RetentionMonths)
	if before < past {
		r.config.Progress.Noticed(t.Property.Target, Unconfirmed{past, newest})
	}
	if !isPast(before) {
		return damage
	}
	if err := r.config.History.Prune(ctx, t.Property.PropertyID, before); err != nil {
		return err
	}
	r.config.Progress.Noticed(t.Property.Target, Pruned{before})
	return nil
}

// newest returns the newest archived day of all properties, given the last one of a property. It confirms the clock: one that is years ahead
// would delete all history, which nothing brings back, but no day is archived by it, since no certificate of the upstream is valid then.
func (r *run) newest(ctx context.Context, last translate.Date) (translate.Date, error) {
	recorded, err := r.config.Store.NewestArchivedDay(ctx)
	if err != nil {
		return 0, fmt.Errorf("look up how far the archive reaches: %w", err)
	}
	if recorded != nil {
		last = max(last, *recorded)
	}
	return last, nil
}
