package collector

import (
	"context"
	"errors"
)

// refresh updates the property of a task if the store answers; what the task archives does not depend on it. It returns why the
// property is not collected.
func (r *run) refresh(ctx context.Context, t *task) error {
	now, err := r.current(ctx, t.Property)
	if errors.Is(err, ErrRemoved) {
		return err
	}
	if err == nil {
		t.Property, t.state = now, now.State
	}
	if t.Property.RetentionMonths <= 0 {
		return ErrNotKept
	}
	return nil
}

// current returns a property as it is now, or ErrRemoved.
func (r *run) current(ctx context.Context, p Property) (Property, error) {
	now, exists, err := r.config.Current(ctx, p.PropertyID)
	switch {
	case err != nil:
		return p, err
	case !exists:
		return p, ErrRemoved
	}
	now.State.PropertyID = p.PropertyID
	return now, nil
}
