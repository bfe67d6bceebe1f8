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
	Max *int // inspections of each property; nil: bounded only by the quota
}

// A Result is the outcome for one property.
type Result struct {
	Property  Property         // as it was when its turn came
	URLs      int              // tracked
	Inspected int              // in this run
	Left      int              // due but not inspected
	Capped    bool             // there were more URLs than the plan inspects
	Problems  []SitemapProblem // of the sitemaps that were read in this run
	Err       error            // why today's work is not done; nil if it is, or if Options.Max ended it
	Why       error            // why URLs are left although Err is nil: the daily quota, or they were skipped; nil for Options.Max
}

// Reasons why a property is not inspected.
var (
	ErrRemoved      = errors.New("it was removed during the run")
	ErrNotInspected = errors.New("it is archived, or its plan inspects no URLs")
	ErrTaken        = errors.New("another process is inspecting it")
)

// Inspect discovers the URLs of the properties, inspects what is due until nothing is left or the daily quota is used up,
// publishes the results, and returns the outcomes in order. It ends early, with an error, only if ctx does; the next run
// publishes the results that have been staged by then.
func (i *Inspector) Inspect(ctx context.Context, properties []Property, opts Options) ([]Result, error) {
	if opts.Max != nil && *opts.Max < 0 {
		return nil, fmt.Errorf("at most %d inspections: the limit is negative", *opts.Max)
	}
	r := &run{Inspector: i, opts: opts, paused: make(map[string]time.Time)}
	// A lease is reentrant by holder, so each run in this process needs its own holder.
	r.holder = fmt.Sprintf("%s/%d", i.config.Holder, i.runs.Add(1))
	i.config.Progress.Planned(r.estimate(properties))
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
	lost   schedule.LostConnections

	pausing sync.Mutex           // guards paused
	paused  map[string]time.Time // until when each property pauses, as reported
}

// A task is a property in a run.
type task struct {
	Result
	state sqlstore.IndexState
	began time.Time
}

// estimate returns roughly how many URLs of each property are due, from the last discovery. A property that was never discovered
// counts as zero.
func (r *run) estimate(properties []Property) map[string]int {
	urls := make(map[string]int, len(properties))
	today := r.calendar.Day(r.config.Now())
	for _, p := range properties {
		if !p.isInspected() {
			continue
		}
		n := p.State.URLs
		if at := p.State.InspectedAt; at != nil && r.calendar.Day(*at) >= today {
			n = 0
		}
		if r.opts.Max != nil {
			n = min(n, *r.opts.Max)
		}
		urls[p.PropertyID] = n
	}
	return urls
}

// property does all the work on a property.
func (r *run) property(ctx context.Context, t *task) {
	if t.Err = context.Cause(ctx); t.Err != nil {
		return
	}
	p := t.Property
	if !p.isInspected() {
		t.Err = ErrNotInspected
	} else {
		t.Err = r.exclusively(ctx, p, func(ctx context.Context) error { return r.inspect(ctx, t) })
	}
	if context.Cause(ctx) == nil {
		r.config.Progress.Ended(p.Target, t.Err)
	}
}

// exclusively runs do while holding the lease of a property. If another process holds the lease, it waits up to Config.Wait, long
// enough for a dead holder's lease to expire, then returns ErrTaken.
func (r *run) exclusively(ctx context.Context, p Property, do func(context.Context) error) error {
	for waited := time.Duration(0); ; waited += leasePoll {
		acquired, err := schedule.WithLease(ctx, r.config.Leases, "inspect/"+p.PropertyID, r.holder, do)
		switch {
		case acquired || err != nil:
			return err
		case waited >= r.config.Wait:
			return ErrTaken
		case waited == 0:
			r.config.Progress.Paused(p.Target, r.config.Now().Add(r.config.Wait), ErrTaken)
		}
		if err := schedule.Sleep(ctx, leasePoll); err != nil {
			return err
		}
	}
}

// inspect works on a property under its lease, and saves its state unless ctx has ended.
func (r *run) inspect(ctx context.Context, t *task) (err error) {
	t.began = r.config.Now()
	if err := r.lookUp(ctx, t); err != nil {
		return err
	}
	t.URLs, t.Capped = t.state.URLs, t.state.Capped
	complete, err := r.refresh(ctx, t)
	if ended := context.Cause(ctx); ended != nil {
		return ended
	}
	if err != nil {
		if _, cooling := errors.AsType[*schedule.CooldownError](err); !cooling { // no call was made
			t.state.Failures++
		}
		t.state.Note = err.Error()
	} else {
		t.state.Failures, t.state.Note = 0, ""
	}
	if complete {
		t.state.InspectedAt = &t.began
	}
	saved := r.config.Store.SaveIndexRun(ctx, t.state)
	if errors.As(saved, new(*sqlstore.NotFoundError)) {
		return ErrRemoved
	}
	return schedule.JoinLine(err, saved)
}

// lookUp updates the property of a task, which may have changed since it was listed. It returns why the property is not inspected.
func (r *run) lookUp(ctx context.Context, t *task) error {
	p, exists, err := r.config.Current(ctx, t.Property.PropertyID)
	switch {
	case err != nil:
		return err
	case !exists:
		return ErrRemoved
	}
	if t.Property, t.state = p, p.State; !p.isInspected() {
		return ErrNotInspected
	}
	return nil
}

// refresh discovers, inspects and publishes. complete is true if no work is left for today.
func (r *run) refresh(ctx context.Context, t *task) (complete bool, err error) {
	tracked, err := r.config.Store.TrackedURLs(ctx, t.Property.PropertyID)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(tracked, t.mayBeStaged) { // an earlier run was interrupted
		if err := r.publish(ctx, t); err != nil {
			return false, err
		}
	}
	discoverErr := r.discover(ctx, t, tracked)
	if schedule.IsConnectionLost(discoverErr) {
		return false, discoverErr
	}
	if tracked, err = r.config.Store.TrackedURLs(ctx, t.Property.PropertyID); err != nil {
		return false, err
	}
	due := plan(tracked, r.calendar.Day(t.began), r.calendar.Day)
	complete, err = r.inspectAll(ctx, t, tracked, due)
	complete = complete && discoverErr == nil
	// Even without new results: the trend has an entry for every day.
	unchanged := complete && (t.state.RefreshedAt != nil || len(tracked) == 0)
	if t.Inspected > 0 || unchanged {
		err = schedule.JoinLine(err, r.publish(ctx, t))
	}
	return complete && err == nil, schedule.JoinLine(err, discoverErr)
}

// mayBeStaged reports whether a URL may have an unpublished result. Times are kept in seconds, so within one second
// the order is unknown; publishing is idempotent.
func (t *task) mayBeStaged(u sqlstore.TrackedURL) bool {
	return u.InspectedAt != nil && (t.state.RefreshedAt == nil || !u.InspectedAt.Before(t.state.RefreshedAt.Truncate(time.Second)))
}

func (r *run) publish(ctx context.Context, t *task) error {
	now := r.config.Now()
	_, err := r.config.Store.PublishInspections(ctx, t.Property.PropertyID, r.calendar.Day(now), now)
	if err == nil {
		t.state.RefreshedAt = &now
	}
	return err
}
