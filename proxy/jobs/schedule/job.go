package schedule

import (
	"context"
	"slices"
	"time"

	"sara/proxy/upstream"
)

// A Job works once a day on each property, of type P, on one replica at a time; R is the result for one property. All fields
// except Jitter and Order are required.
type Job[P, R any] struct {
	Name   string // of the lease that elects a replica; a verb, also used in errors
	Leases Leases
	Holder string           // the name of this replica, unique
	Jitter time.Duration    // how late this replica starts a new day, so that not all replicas start at once
	Now    func() time.Time // decides what is due, and the backoff of failed properties

	Properties func(ctx context.Context) ([]P, error) // all properties
	Status     func(P) Status
	Covers     func(done, now time.Time) bool // whether a run that began at done has done the work of now's day
	Order      func(a, b P) int               // of the due properties; nil: as Properties returns them

	// Work works on properties and returns their results in any order. Its error means that the round failed, not one of the
	// properties.
	Work func(ctx context.Context, due []P) ([]R, error)
	// Outcome returns the property of a result, and why its work is not done; nil if it is.
	Outcome func(R) (P, error)
	// Report receives the results of a round, or why there are none. It is not called if there was nothing to do.
	Report func(ctx context.Context, results []R, err error)
}

// Status is what decides whether a property is due.
type Status struct {
	ID            string
	Credentials   Credentials // that it is read with: others end its backoff
	Enabled       bool        // it has any work at all
	DoneAt        *time.Time  // start of the last run that did all its work; nil: never
	CooldownUntil *time.Time  // end of its site's cooldown; nil: none
}

// pollEvery is how often a Job looks for work. Each time costs one or two queries to the store.
const pollEvery = 10 * time.Minute

// Backoff of failed properties. After a failure that may pass by itself it doubles, up to a bound that leaves most of a day after an outage.
// After one that a person must repair it is longer: new credentials end it, but what is repaired at the upstream is not noticed earlier. Only
// this process knows it; other replicas learn it by failing themselves.
const (
	firstBackoff  = time.Hour
	mostBackoff   = 4 * time.Hour
	repairBackoff = 12 * time.Hour
)

// A pause is the backoff of one property.
type pause struct {
	credentials Credentials // that it failed with
	length      time.Duration
	until       time.Time
}

// Run does the work that is due, then polls for more. It returns when ctx has ended, after its work has stopped.
func (j *Job[P, R]) Run(ctx context.Context) {
	backoff := make(map[string]pause)
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

// round does what is due if this replica gets the lease. backoff holds the pause of each property that has failed.
func (j *Job[P, R]) round(ctx context.Context, backoff map[string]pause) (results []R, acquired bool, err error) {
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
	if worked { // otherwise the round failed, not a property
		j.noteOutcomes(results, backoff)
	}
	return results, acquired || err != nil, err
}

// noteOutcomes starts the backoff of each failed property.
func (j *Job[P, R]) noteOutcomes(results []R, backoff map[string]pause) {
	now := j.Now()
	for _, r := range results {
		p, err := j.Outcome(r)
		s := j.Status(p)
		if err == nil {
			delete(backoff, s.ID)
			continue
		}
		length := repairBackoff
		if mayPass(err) {
			length = min(max(firstBackoff, 2*backoff[s.ID].length), mostBackoff)
		}
		backoff[s.ID] = pause{s.Credentials, length, now.Add(length)}
	}
}

// due returns the properties to work on now, and ends the backoff of those that are done or have new credentials. A day begins for this
// replica when its jitter has passed; a property that was never done does not wait for that.
func (j *Job[P, R]) due(ctx context.Context, backoff map[string]pause) ([]P, error) {
	properties, err := j.Properties(ctx)
	if err != nil {
		return nil, err
	}
	now := j.Now()
	due := slices.DeleteFunc(slices.Clone(properties), func(p P) bool {
		s := j.Status(p)
		if s.DoneAt != nil && s.DoneAt.Before(now.Add(maxAhead)) && j.Covers(*s.DoneAt, now.Add(-j.Jitter)) {
			delete(backoff, s.ID) // another replica may have done it: the next failure is a first one
			return true
		}
		if backoff[s.ID].credentials != s.Credentials {
			delete(backoff, s.ID)
		}
		return !s.Enabled || s.CooldownUntil != nil && IsCooling(*s.CooldownUntil, now) || backoff[s.ID].until.After(now)
	})
	if j.Order != nil {
		slices.SortStableFunc(due, j.Order)
	}
	return due, nil
}

// maxAhead is how far another replica's clock may be ahead. A run that seems to have begun later than that was recorded by a wrong
// clock, and would keep its property from being worked on until then.
const maxAhead = time.Hour

func mayPass(err error) bool {
	kind := KindOf(err)
	return kind == upstream.Unavailable || kind == upstream.Quota
}
