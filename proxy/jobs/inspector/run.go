package inspector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sara/archive/sqlstore"
	"sara/proxy/jobs/schedule"
)

// Options bound a run.
type Options struct {
	Max *int // most inspections of each property; nil: no bound but the quota's
}

// A Result is what became of a property.
type Result struct {
	Property  Property         // as it was given
	URLs      int              // that are tracked
	Inspected int              // in this run
	Left      int              // that were due and are not inspected
	Capped    bool             // there were more URLs than the plan inspects
	Problems  []SitemapProblem // of the sitemaps that were read in this run
	Err       error            // why not all was done that could be done today; nil when it was, or when Options.Max ended it
	Why       error            // why URLs are left without an Err, unless it is Options.Max: the day is used up, or they were skipped
}

// Reasons why a property is not inspected at all.
var (
	ErrNotInspected = errors.New("it is archived, or its plan inspects no URLs")
	ErrTaken        = errors.New("another process inspects it at the moment")
)

// Inspect discovers the URLs of the properties, inspects what is due of each until nothing is left or can be done today, and
// publishes the results. It returns what became of the properties, in their order. It ends early, with an error, only when
// ctx does; the answers it has by then are published by the next run.
func (i *Inspector) Inspect(ctx context.Context, properties []Property, opts Options) ([]Result, error) {
	if opts.Max != nil && *opts.Max < 0 {
		return nil, fmt.Errorf("at most %d inspections: that is negative", *opts.Max)
	}
	r := &run{Inspector: i, opts: opts, lost: make(map[string]error)}
	// A lease does not tell its holder from itself: another run of this process is another holder.
	r.holder = fmt.Sprintf("%s/%d", i.config.Holder, i.runs.Add(1))
	tasks := make([]task, len(properties))
	var group errgroup.Group
	group.SetLimit(i.config.Parallel)
	for n, p := range properties {
		t := &tasks[n]
		t.Property = p
		group.Go(func() error {
			r.property(ctx, t)
			return context.Cause(ctx)
		})
	}
	err := group.Wait()
	results := make([]Result, len(tasks))
	for n, t := range tasks {
		results[n] = t.Result
	}
	return results, err
}

// run is one call of Inspect.
type run struct {
	*Inspector
	opts   Options
	holder string

	mu   sync.Mutex
	lost map[string]error // the connections that read nothing any more; guarded by mu
}

// A task is a property in a run.
type task struct {
	Result
	state sqlstore.IndexState
	began time.Time
}

// property does all there is to do about a property.
func (r *run) property(ctx context.Context, t *task) {
	if t.Err = context.Cause(ctx); t.Err != nil {
		return
	}
	p := t.Property
	if p.Archived || p.MaxURLs <= 0 {
		t.Err = ErrNotInspected
	} else {
		t.Err = r.alone(ctx, p, func(ctx context.Context) error { return r.inspect(ctx, t) })
	}
	if context.Cause(ctx) == nil {
		r.config.Progress.Ended(p, t.Err)
	}
}

// alone runs do while nobody else works on a property. Who died there holds it until its lease runs out, and is waited for;
// so is who is alive, in vain.
func (r *run) alone(ctx context.Context, p Property, do func(context.Context) error) error {
	for waited := time.Duration(0); ; waited += waitPause {
		free, err := schedule.Hold(ctx, r.config.Leases, "inspect/"+p.ID, r.holder, do)
		switch {
		case free || err != nil:
			return err
		case waited >= r.config.Wait:
			return ErrTaken
		case waited == 0:
			r.config.Progress.Paused(p, r.config.Now().Add(r.config.Wait), ErrTaken)
		}
		if err := schedule.Pause(ctx, waitPause); err != nil {
			return err
		}
	}
}

// inspect does it while nobody else does. What became of it is noted, unless ctx has ended.
func (r *run) inspect(ctx context.Context, t *task) (err error) {
	t.began = r.config.Now()
	// How it stands may have changed since somebody listed it.
	if t.state, err = r.config.Store.IndexState(ctx, t.Property.ID); err != nil {
		return err
	}
	t.URLs, t.Capped = t.state.URLs, t.state.Capped
	complete, err := r.renew(ctx, t)
	if ended := context.Cause(ctx); ended != nil {
		return ended
	}
	if err != nil {
		t.state.Failures++
		t.state.Note = err.Error()
	} else {
		t.state.Failures, t.state.Note = 0, ""
	}
	if complete {
		t.state.InspectedAt = &t.began
	}
	return both(err, r.config.Store.SaveIndexRun(ctx, t.state))
}

// both returns two errors as one, in one line.
func both(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return fmt.Errorf("%w; %w", a, b)
}

// renew discovers, inspects and publishes. complete tells that all was done that could be done today.
func (r *run) renew(ctx context.Context, t *task) (complete bool, err error) {
	tracked, err := r.config.Store.TrackedURLs(ctx, t.Property.ID)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(tracked, t.isStaged) { // an earlier run was interrupted
		if err := r.publish(ctx, t); err != nil {
			return false, err
		}
	}
	undiscovered := r.discover(ctx, t, tracked)
	if schedule.ClassOf(undiscovered) == schedule.ConnectionLost || context.Cause(ctx) != nil {
		return false, undiscovered
	}
	if tracked, err = r.config.Store.TrackedURLs(ctx, t.Property.ID); err != nil {
		return false, err
	}
	due := plan(tracked, r.calendar.Day(t.began), r.calendar.Day)
	complete, err = r.inspectAll(ctx, t, tracked, due)
	if context.Cause(ctx) != nil {
		return false, context.Cause(ctx)
	}
	complete = complete && undiscovered == nil
	nothing := complete && (t.state.RefreshedAt != nil || len(tracked) == 0) // is new, and today is a day as well
	if t.Inspected > 0 || nothing {
		err = both(err, r.publish(ctx, t))
	}
	return complete && err == nil, both(err, undiscovered)
}

// isStaged reports whether a URL may have a result that is not published. It is not said which of two moments of one second
// was first, and publishing once more does no harm.
func (t *task) isStaged(u sqlstore.TrackedURL) bool {
	return u.InspectedAt != nil && (t.state.RefreshedAt == nil || !u.InspectedAt.Before(t.state.RefreshedAt.Truncate(time.Second)))
}

func (r *run) publish(ctx context.Context, t *task) error {
	now := r.config.Now()
	_, err := r.config.Store.PublishInspections(ctx, t.Property.ID, r.calendar.Day(now), now)
	if err == nil {
		t.state.RefreshedAt = &now
	}
	return err
}
