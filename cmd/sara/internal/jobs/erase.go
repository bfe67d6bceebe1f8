package jobs

import (
	"context"
	"errors"
	"time"

	"sara/archive/sqlstore"
)

// forgetAfter is how long a removed property is remembered after its history was deleted. A collector that began before the removal
// may still write a month; the next Erase deletes that too.
const forgetAfter = 25 * time.Hour

// RemovedStore knows the removed properties.
type RemovedStore interface {
	RemovedProperties(ctx context.Context) ([]sqlstore.RemovedProperty, error)
	ForgetRemoved(ctx context.Context, id string) error
}

// Eraser deletes the archived history of one property, and returns how many objects it deleted.
type Eraser interface {
	Erase(ctx context.Context, property string) (int, error)
}

// Erased is what Erase did for a removed property.
type Erased struct {
	sqlstore.RemovedProperty
	Objects int // deleted now
	Err     error
}

// Erase deletes the archived history of all removed properties, and reports each. It can be interrupted and called again: a property
// is forgotten only when nothing of it is left. A property that fails does not keep the others from being erased.
func Erase(ctx context.Context, store RemovedStore, history Eraser, now time.Time, report func(Erased)) error {
	removed, err := store.RemovedProperties(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range removed {
		e := Erased{RemovedProperty: p}
		e.Objects, e.Err = history.Erase(ctx, p.ID)
		if e.Err == nil && e.Objects == 0 && now.Sub(p.RemovedAt) >= forgetAfter {
			e.Err = store.ForgetRemoved(ctx, p.ID)
		}
		report(e)
		errs = append(errs, e.Err)
	}
	return errors.Join(errs...)
}

// Spaced limits how often do runs: the result skips calls that come within a pause of the last run. It is not safe for concurrent use.
func Spaced(pause time.Duration, now func() time.Time, do func(context.Context)) func(context.Context) {
	var last time.Time
	return func(ctx context.Context) {
		began := now()
		if since := began.Sub(last); since >= 0 && since < pause {
			return
		}
		last = began
		do(ctx)
	}
}
