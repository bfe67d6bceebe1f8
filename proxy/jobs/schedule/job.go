package schedule

import (
	"context"
	"slices"
	"time"
)

// A Job is work that comes back every day for each of many items of type I; R is what became of one of them. All members but
// Every are required.
type Job[I, R any] struct {
	Leases Leases
	Lease  string           // the name of the lease that the replicas of this job take turns by
	Holder string           // tells this replica from the others
	Every  time.Duration    // how often it looks for work; 0: DefaultEvery
	Now    func() time.Time // by which items are left alone

	// Due returns the items that are to be worked on, and ID what tells one from the others.
	Due func(ctx context.Context) ([]I, error)
	ID  func(I) string
	// Work does the work and returns what became of the items, in any order; an error is to blame on none of them. Ended
	// returns of a result which item it is of, and why it is not done; nil when it is.
	Work  func(ctx context.Context, due []I) ([]R, error)
	Ended func(R) (id string, err error)
	// Report is told what became of the items that were worked on, or why none could be.
	Report func(ctx context.Context, results []R, err error)
}

// DefaultEvery is how often a Job looks for work. That costs one or two queries to the store.
const DefaultEvery = 10 * time.Minute

// How long an item is left alone that could not be done, by whether that may have passed by then. It is known to this process
// only: another replica finds out for itself.
const (
	shortLeave = time.Hour
	longLeave  = 12 * time.Hour
)

// Run works on what is due, looks again every so often, and returns when ctx has ended and all work with it.
func (j *Job[I, R]) Run(ctx context.Context) {
	every := j.Every
	if every == 0 {
		every = DefaultEvery
	}
	left := make(map[string]time.Time)
	for {
		results, free, err := j.round(ctx, left)
		if ctx.Err() != nil {
			return
		}
		if len(results) > 0 || err != nil {
			j.Report(ctx, results, err)
		}
		wait := every
		if !free {
			wait = min(wait, LeaseTime) // whoever has the lease may have died
		}
		if Pause(ctx, wait) != nil {
			return
		}
	}
}

// round works on what is due if it is this replica's turn, which free reports. left is until when items are left alone.
func (j *Job[I, R]) round(ctx context.Context, left map[string]time.Time) (results []R, free bool, err error) {
	due, err := j.due(ctx, left)
	if err != nil || len(due) == 0 {
		return nil, true, err
	}
	free, err = Hold(ctx, j.Leases, j.Lease, j.Holder, func(ctx context.Context) error {
		// Another replica may have done them while this one waited for its turn.
		due, err := j.due(ctx, left)
		if err != nil || len(due) == 0 {
			return err
		}
		results, err = j.Work(ctx, due)
		return err
	})
	if err != nil { // the items are not to blame
		return results, true, err
	}
	now := j.Now()
	for _, r := range results {
		id, err := j.Ended(r)
		switch {
		case err == nil:
			delete(left, id)
		case mayPass(err):
			left[id] = now.Add(shortLeave)
		default:
			left[id] = now.Add(longLeave)
		}
	}
	return results, free, nil
}

func (j *Job[I, R]) due(ctx context.Context, left map[string]time.Time) ([]I, error) {
	due, err := j.Due(ctx)
	if err != nil {
		return nil, err
	}
	now := j.Now()
	return slices.DeleteFunc(due, func(i I) bool { return left[j.ID(i)].After(now) }), nil
}

func mayPass(err error) bool {
	class := ClassOf(err)
	return class == Unavailable || class == Quota
}
