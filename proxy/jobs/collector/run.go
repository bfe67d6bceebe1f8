package collector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sara/archive"
	"sara/proxy/jobs/schedule"
	"sara/translate"
)

// Span bounds the days to collect; nil is no bound of its own. What the upstream has forgotten, or the plan does not keep,
// is left out without a word.
type Span struct {
	Since, Until *translate.Date
}

// A Result is what became of a property.
type Result struct {
	Property Property // as it was given
	Days     int      // that were archived in this run, whole or in part
	Err      error    // why it is not complete; nil when it is
}

// ErrNotKept is the Err of a property whose plan keeps no history.
var ErrNotKept = errors.New("its plan keeps no history")

// Collect collects the properties, each until it is complete or cannot be completed now, forgets what is older than their
// plans keep, and returns what became of them, in their order. It ends early, with an error, only when ctx does; what is
// archived by then stays.
func (c *Collector) Collect(ctx context.Context, properties []Property, span Span) ([]Result, error) {
	began := c.config.Now()
	r := &run{
		Collector: c, span: span, began: began, anchor: c.calendar.Anchor(began),
		lost: make(map[string]error), resting: make(map[string]time.Time),
	}
	tasks := make([]*task, len(properties))
	for i, p := range properties {
		p.State.PropertyID = p.ID
		tasks[i] = &task{Result: Result{Property: p}, state: p.State}
		if until := p.State.RestsUntil; until != nil {
			r.resting[p.Site] = *until
		}
	}
	err := r.all(ctx, tasks)
	results := make([]Result, len(tasks))
	for i, t := range tasks {
		if !t.over {
			t.Err = err
		}
		results[i] = t.Result
	}
	return results, err
}

// run is one call of Collect.
type run struct {
	*Collector
	span   Span
	began  time.Time
	anchor translate.Date
	pace   schedule.Pace

	mu      sync.Mutex           // guards what follows
	lost    map[string]error     // the connections that read nothing any more
	resting map[string]time.Time // until when a site rests, by Config.Now
}

// A task is a property in a run.
type task struct {
	Result
	state State
	vain  int       // tries in a row that have archived nothing
	ready time.Time // for the next try
	over  bool
}

// all tries the tasks that are ready, again and again until all of them are over. Those that failed wait for their time
// while the others are tried.
func (r *run) all(ctx context.Context, tasks []*task) error {
	for len(tasks) > 0 {
		var ready, rest []*task
		now := time.Now()
		next := tasks[0].ready
		for _, t := range tasks {
			if t.ready.After(now) {
				rest = append(rest, t)
			} else {
				ready = append(ready, t)
			}
			if t.ready.Before(next) {
				next = t.ready
			}
		}
		if len(ready) == 0 {
			if err := schedule.Pause(ctx, next.Sub(now)); err != nil {
				return err
			}
			continue
		}
		if err := r.try(ctx, ready); err != nil {
			return err
		}
		for _, t := range ready {
			if !t.over {
				rest = append(rest, t)
			}
		}
		tasks = rest
	}
	return nil
}

// try tries each task once, several at a time.
func (r *run) try(ctx context.Context, tasks []*task) error {
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

// attempt collects a property as far as it can be collected now, and prunes it. Its error is ctx's: others are the task's.
func (r *run) attempt(ctx context.Context, t *task) error {
	if t.Property.RetentionMonths <= 0 {
		t.Err, t.over = ErrNotKept, true
		r.config.Progress.Ended(t.Property, t.Err)
		return nil
	}
	before := t.Days
	var err error
	if !t.Property.Archived {
		err = r.collect(ctx, t)
	}
	if ended := context.Cause(ctx); ended != nil {
		return ended
	}
	if t.Days > before {
		t.vain = 0
	}
	err = r.judge(t, err)
	if !t.over {
		return r.save(ctx, t)
	}
	return r.finish(ctx, t, err)
}

// judge decides whether a task is over after an attempt that ended with err.
func (r *run) judge(t *task, err error) error {
	t.state.RestsUntil = nil
	if until, rests := r.rests(t.Property.Site); rests {
		t.state.RestsUntil = &until
	}
	if err == nil {
		t.over = true
		return nil
	}
	t.state.Note = err.Error()
	wait, again := r.again(t, err)
	if !again {
		t.over = true
		return err
	}
	t.vain++
	t.ready = time.Now().Add(wait)
	r.config.Progress.Paused(t.Property, r.config.Now().Add(wait), err)
	return nil
}

// again tells whether and after which pause the task is worth another try.
func (r *run) again(t *task, err error) (time.Duration, bool) {
	if t.vain >= patience-1 {
		return 0, false
	}
	var damaged *archive.ObjectError
	var contradiction *ContradictionError
	if errors.As(err, &damaged) || errors.As(err, &contradiction) {
		return 0, false
	}
	switch schedule.ClassOf(err) {
	case schedule.Unavailable:
		return r.config.RetryPause << t.vain, true
	case schedule.Quota:
		until, _ := r.rests(t.Property.Site)
		wait := max(until.Sub(r.config.Now()), r.config.RetryPause)
		return wait, wait <= longestRest
	}
	return 0, false
}

// finish prunes a property, and tells how it ended.
func (r *run) finish(ctx context.Context, t *task, err error) error {
	if err == nil {
		err = r.prune(ctx, t)
	}
	if err == nil {
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
	r.config.Progress.Ended(t.Property, t.Err)
	return nil
}

// prune forgets the days that the plan has not kept for the time of grace.
func (r *run) prune(ctx context.Context, t *task) error {
	window := translate.NewWindow(r.anchor, t.Property.RetentionMonths)
	before := window.Earliest - translate.Date(r.config.GraceDays)
	inventory, err := r.config.History.Days(ctx, t.Property.ID)
	if err != nil {
		return err
	}
	if first, _ := bounds(inventory); first == nil || *first >= before {
		return nil
	}
	if err := r.config.History.Prune(ctx, t.Property.ID, before); err != nil {
		return err
	}
	r.config.Progress.Pruned(t.Property, before)
	return nil
}

// save tells the ledger how the property stands. That it does not take it is an error of the result, if there is no other:
// the archive does not depend on the ledger.
func (r *run) save(ctx context.Context, t *task) error {
	inventory, err := r.config.History.Days(ctx, t.Property.ID)
	if err == nil {
		t.state.First, t.state.Last = bounds(inventory)
		err = r.config.Ledger.SaveState(ctx, t.state)
	}
	if ended := context.Cause(ctx); ended != nil {
		t.over = false
		return ended
	}
	if err != nil && t.Err == nil && t.over {
		t.Err = fmt.Errorf("note the state of the archive: %w", err)
	}
	return nil
}

// bounds returns the first and the last day that is archived under any dimension; nil when nothing is.
func bounds(inventory archive.Inventory) (first, last *translate.Date) {
	for _, c := range inventory {
		if first == nil || c.First < *first {
			first = &c.First
		}
		if last == nil || c.Last > *last {
			last = &c.Last
		}
	}
	return first, last
}
