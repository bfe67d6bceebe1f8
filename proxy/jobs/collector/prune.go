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

// FirstKept returns the first day that is kept at an anchor by a plan that keeps some months; earlier days are deleted when the property
// is next collected.
func FirstKept(anchor translate.Date, retentionMonths, graceDays int) translate.Date {
	return translate.NewWindow(anchor, retentionMonths).Earliest - translate.Date(graceDays)
}

// prune deletes the days that are past the plan's retention and the grace period.
func (r *run) prune(ctx context.Context, t *task) error {
	inventory, damage := r.config.History.Days(ctx, t.Property.PropertyID)
	if _, isDamage := errors.AsType[*archive.DamageError](damage); damage != nil && !isDamage {
		return damage
	}
	first, _ := inventory.Bounds() // of the readable months; Prune keeps the others
	isPast := func(before translate.Date) bool { return first != nil && *first < before }
	before := FirstKept(r.anchor, t.Property.RetentionMonths, r.config.GraceDays)
	if !isPast(before) {
		return damage
	}
	// By the current plan: the account may have moved to one that keeps more, and imported more days.
	now, err := r.current(ctx, t.Property)
	if err != nil {
		return fmt.Errorf("look up how much history its plan keeps: %w", err)
	}
	if before = FirstKept(r.anchor, now.RetentionMonths, r.config.GraceDays); now.RetentionMonths <= 0 || !isPast(before) {
		return damage
	}
	if err := r.config.History.Prune(ctx, t.Property.PropertyID, before); err != nil {
		return err
	}
	r.config.Progress.Noticed(t.Property.Target, Pruned{before})
	return nil
}
