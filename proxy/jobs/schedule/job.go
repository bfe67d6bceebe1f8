package schedule

import (
	"context"
	"slices"
	"time"

	"sara/proxy/upstream"
)

// A Job works on properties of type P once a day each, on one replica at a time; R is the result of one of them. All members
// but Jitter and Order are required.
type Job[P, R any] struct {
	Name   string // of the lease that elects a replica; a verb, used in errors
	Leases Leases
	Holder string           // the name of this replica, unique
	Jitter time.Duration    // by how much this replica starts a new day late, so that not all replicas start at once
	Now    func() time.Time // for what is due, and the backoff of properties that failed

	Properties func(ctx context.Context) ([]P, error) // all there are
	Status     func(P) Status
	Covers     func(done, now time.Time) bool // whether a run that began at done has done the work of now's day
	Order      func(a, b P) int               // of the properties that are due; nil: as Properties returns them

	// Work works on properties and returns their results in any order. Its error means that the round failed, not one of the
	// properties.
	Work func(ctx context.Context, due []P) ([]R, error)
	// Outcome returns which property a result is of, and why its work is not done; nil when it is.
	Outcome func(R) (P, error)
	// Report receives the results of a round, or why there are none. It is not called when there was nothing to do.
	Report func(ctx context.Context, results []R, err error)
}

// Status is what decides whether a property is due.
type Status struct {
	ID            string
	Enabled       bool       // there is work to do on it at all
	DoneAt        *time.Time // when the last run began that did all its work; nil: never
	CooldownUntil *time.Time // end of its site's cooldown; nil: none
}

// pollEvery is how often a Job looks for work. Each time costs one or two queries to the store.
const pollEvery = 10 * time.Minute

// Backoff of properties that failed: short after a failure that may pass by itself, long after one that a person has to
// repair. It is known to this process only; other replicas learn it by failing themselves.
const (
	shortBackoff = time.Hour
	longBackoff  = 12 * time.Hour
)

// Run does the work that is due, then polls for more. It returns when ctx has ended, after its work has.
func (j *Job[P, R]) Run(ctx context.Context) {
	backoff := make(map[string]time.Time)
	for {
		results, acquired, err := j.round(ctx, backoff)
		if ctx.Err() != nil {
			return
		}
		if len(results) > 0 || err != nil {
			j.Report(ctx, results, err)
		}
		wait := pollEvery
		if !acquired {
			wait = min(wait, LeaseTTL) // the holder of the lease may have died
		}
		if Sleep(ctx, wait) != nil {
			return
		}
	}
}

// round does what is due if this replica gets the lease. backoff has the time until which each failed property is left out.
func (j *Job[P, R]) round(ctx context.Context, backoff map[string]time.Time) (results []R, acquired bool, err error) {
	due, err := j.due(ctx, backoff)
	if err != nil || len(due) == 0 {
		return nil, true, err
	}
	worked := false
	acquired, err = WithLease(ctx, j.Leases, j.Name, j.Holder, func(ctx context.Context) error {
		// Another replica may have done the work just before this one got the lease.
		due, err := j.due(ctx, backoff)
		if err != nil || len(due) == 0 {
			return err
		}
		results, err = j.Work(ctx, due)
		worked = err == nil
		return err
	})
	if worked { // else the round failed, not a property
		j.noteOutcomes(results, backoff)
	}
	return results, acquired || err != nil, err
}

// noteOutcomes leaves out each property that failed for a while.
func (j *Job[P, R]) noteOutcomes(results []R, backoff map[string]time.Time) {
	now := j.Now()
	for _, r := range results {
		p, err := j.Outcome(r)
		id := j.Status(p).ID
		switch {
		case err == nil:
			delete(backoff, id)
		case mayPass(err):
			backoff[id] = now.Add(shortBackoff)
		default:
			backoff[id] = now.Add(longBackoff)
		}
	}
}

// due returns the properties to work on now. A day begins for this replica when its jitter has passed; a property that was
// never done does not wait for that.
func (j *Job[P, R]) due(ctx context.Context, backoff map[string]time.Time) ([]P, error) {
	properties, err := j.Properties(ctx)
	if err != nil {
		return nil, err
	}
	now := j.Now()
	due := slices.DeleteFunc(slices.Clone(properties), func(p P) bool {
		s := j.Status(p)
		return !s.Enabled || s.DoneAt != nil && s.DoneAt.Before(now.Add(maxAhead)) && j.Covers(*s.DoneAt, now.Add(-j.Jitter)) ||
			s.CooldownUntil != nil && s.CooldownUntil.After(now) || backoff[s.ID].After(now)
	})
	if j.Order != nil {
		slices.SortStableFunc(due, j.Order)
	}
	return due, nil
}

// maxAhead is how far the clock of another replica may be ahead. A run that seems to have begun later than that was recorded by a clock
// that was wrong, and its property would not be worked on until then.
const maxAhead = time.Hour

func mayPass(err error) bool {
	kind := KindOf(err)
	return kind == upstream.Unavailable || kind == upstream.Quota
}
