package collector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

// Span bounds the days to collect; nil is unbounded. Days that the upstream has dropped, or that the plan does not keep, are
// silently left out.
type Span struct {
	Since, Until *translate.Date
}

// A Result is the outcome for one property.
type Result struct {
	Property Property // as it was when its last attempt began
	Days     int      // archived in this run, whole or in part
	Err      error    // why it is not complete; nil if it is
}

// The Err of properties that are not collected.
var (
	ErrNotKept = errors.New("its plan keeps no history")
	ErrRemoved = errors.New("it was removed during the run")
)

// ContradictionError lists days for which the upstream reported both traffic and no traffic, in different answers. They are
// not archived.
type ContradictionError struct {
	Days []translate.Date // in order
}

func (e *ContradictionError) Error() string {
	return fmt.Sprintf("Search Console contradicts itself, first about %s; days not archived: %d", e.Days[0], len(e.Days))
}

// Collect collects the properties until each is complete or cannot be completed now, prunes what their plans no longer keep,
// and returns the results in order. It ends early, with an error, only if ctx does; what has been archived by then stays.
func (c *Collector) Collect(ctx context.Context, properties []Property, span Span) ([]Result, error) {
	began := c.config.Now()
	r := &run{
		Collector: c, span: span, began: began, anchor: c.calendar.Anchor(began),
		cooldowns: make(map[string]time.Time),
	}
	tasks := make([]*task, len(properties))
	for i, p := range properties {
		p.State.PropertyID = p.PropertyID
		tasks[i] = &task{Result: Result{Property: p}, state: p.State, archived: map[translate.Date]bool{}}
		if until := p.State.CooldownUntil; until != nil {
			r.cool(p.Site, *until)
		}
	}
	r.config.Progress.Planned(r.estimate(properties))
	err := r.all(ctx, tasks)
	results := make([]Result, len(tasks))
	for i, t := range tasks {
		if !t.done {
			t.Err = err
		}
		results[i] = t.Result
	}
	return results, err
}

// run is one call of Collect.
type run struct {
	*Collector
	span    Span
	began   time.Time
	anchor  translate.Date
	limiter schedule.Limiter
	lost    schedule.LostConnections

	mu        sync.Mutex
	cooldowns map[string]time.Time // by site, the end of its cooldown by Config.Now; guarded by mu
}

// A task is a property in a run.
type task struct {
	Result
	state    sqlstore.ArchiveState
	archived map[translate.Date]bool // in this run; a retry archives provisional days again
	reached  translate.Date          // the last day up to which it is archived in this run
	failed   int                     // consecutive attempts that reached no later day
	retryAt  time.Time               // zero: immediately
	done     bool
}

// all works on the tasks until all are done. A task in backoff waits while the others are attempted.
func (r *run) all(ctx context.Context, tasks []*task) error {
	open := slices.Clone(tasks)
	for len(open) > 0 {
		next := slices.MinFunc(open, func(a, b *task) int { return a.retryAt.Compare(b.retryAt) })
		if err := schedule.Sleep(ctx, time.Until(next.retryAt)); err != nil {
			return err
		}
		now := time.Now()
		due := slices.DeleteFunc(slices.Clone(open), func(t *task) bool { return t.retryAt.After(now) })
		if err := r.attemptEach(ctx, due); err != nil {
			return err
		}
		open = slices.DeleteFunc(open, func(t *task) bool { return t.done })
	}
	return nil
}

// attemptEach attempts each task once, several at a time.
func (r *run) attemptEach(ctx context.Context, tasks []*task) error {
	var group errgroup.Group
	group.SetLimit(r.config.Parallel)
	for _, t := range tasks {
		group.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			return r.attempt(ctx, t)
		})
	}
	return group.Wait()
}

// attempt collects and prunes a property as far as possible now. Its error is that of ctx; any other goes to the task.
func (r *run) attempt(ctx context.Context, t *task) error {
	if err := r.refresh(ctx, t); err != nil {
		t.Err, t.done = err, true
		r.config.Progress.Ended(t.Property.Target, t.Err)
		return nil
	}
	before := t.reached
	var err, lasting error
	if !t.Property.Archived {
		err, lasting = r.collect(ctx, t)
	}
	if ended := context.Cause(ctx); ended != nil {
		return ended
	}
	if t.reached > before {
		t.failed = 0
	}
	t.state.CooldownUntil = nil
	if until, cooling := r.cooldown(t.Property.Site); cooling {
		t.state.CooldownUntil = &until
	}
	if pause, retry := r.retry(t, err); retry {
		t.state.Note = err.Error()
		t.retryAt = time.Now().Add(pause)
		r.config.Progress.Paused(t.Property.Target, r.config.Now().Add(pause), err)
		return r.save(ctx, t)
	}
	t.done = true
	return r.finish(ctx, t, schedule.JoinLine(err, lasting))
}

// retry decides whether a task whose attempt ended with err is attempted again, and after what pause.
func (r *run) retry(t *task, err error) (pause time.Duration, retry bool) {
	if err == nil || errors.As(err, new(*archive.ObjectError)) {
		return 0, false
	}
	t.failed++
	pause, retry = schedule.Backoff(r.config.RetryPause, t.failed)
	switch schedule.KindOf(err) {
	case upstream.Unavailable:
		return pause, retry
	case upstream.Quota:
		until, _ := r.cooldown(t.Property.Site)
		pause = max(until.Sub(r.config.Now()), r.config.RetryPause)
		return pause, retry && pause <= maxCooldown
	}
	return 0, false
}

// finish prunes a property after its last attempt, which ended with err, and records the outcome. A property that Search Console refuses,
// perhaps for ever, is pruned like any other.
func (r *run) finish(ctx context.Context, t *task, err error) error {
	pruned := r.prune(ctx, t)
	if err = cmp.Or(err, pruned); err == nil {
		t.state.Failures, t.state.Note = 0, ""
		if r.span == (Span{}) {
			t.state.CollectedAt = &r.began
		}
	} else {
		t.state.Failures++
		t.state.Note = err.Error()
	}
	t.Err = err
	if err := r.save(ctx, t); err != nil {
		return err
	}
	r.config.Progress.Ended(t.Property.Target, t.Err)
	return nil
}

// save records the state of a property. If that fails, the error becomes that of the result unless it already has one, because the
// archive does not depend on the record; but a property that was removed meanwhile has no other. save returns only the error of ctx.
func (r *run) save(ctx context.Context, t *task) error {
	err := Cover(ctx, r.config.History, &t.state) // collect has reported damaged months
	if err == nil {
		err = r.config.Store.SaveArchiveState(ctx, t.state)
	}
	if ended := context.Cause(ctx); ended != nil {
		t.done = false
		return ended
	}
	switch {
	case errors.As(err, new(*sqlstore.NotFoundError)):
		t.Err = ErrRemoved
	case err != nil && t.Err == nil && t.done:
		t.Err = fmt.Errorf("save the state of the archive: %w", err)
	}
	return nil
}

// Cover sets which days of a property are archived in the state of its archive: listing properties shows them without reading the archive.
// Damaged months do not count.
func Cover(ctx context.Context, history History, state *sqlstore.ArchiveState) error {
	inventory, err := history.Days(ctx, state.PropertyID)
	if err != nil && !errors.As(err, new(*archive.DamageError)) {
		return err
	}
	first, last := inventory.Bounds()
	state.Cover(first, last, inventory.EmptyMonths())
	return nil
}

// knownFailure returns the error that a call is known to fail with; nil if the call may be made.
func (r *run) knownFailure(p Property) error {
	if err := r.lost.Err(p.Target); err != nil {
		return err
	}
	if until, cooling := r.cooldown(p.Site); cooling {
		return schedule.NewCooldownError(until, r.config.Now())
	}
	return nil
}

// remember records what an error implies for the other properties of the connection or the site.
func (r *run) remember(p Property, err error) {
	r.lost.Note(p.Target, err)
	if schedule.KindOf(err) == upstream.Quota {
		r.cool(p.Site, r.config.Now().Add(schedule.CooldownOf(err)))
	}
}

// cool puts a site in a cooldown, unless that is over, or the site is in one that ends later.
func (r *run) cool(site string, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.config.Now()
	before := r.cooldowns[site]
	if schedule.IsCooling(until, now) && (!schedule.IsCooling(before, now) || before.Before(until)) {
		r.cooldowns[site] = until
	}
}

// cooldown returns the end of a site's cooldown, and whether it is in one.
func (r *run) cooldown(site string) (until time.Time, cooling bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	until = r.cooldowns[site]
	return until, schedule.IsCooling(until, r.config.Now())
}
