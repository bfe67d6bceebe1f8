package inspector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sara/archive/sqlstore"
	"sara/proxy/jobs/schedule"
	"sara/translate"
)

// errDayUsedUp ends the inspections of a property for today.
var errDayUsedUp = errors.New("the upstream's quota of the day is used up")

// inspection is what is under way of one property.
type inspection struct {
	*run
	task *task
	// going ends when there is nothing to wait for any more. What is on its way to the upstream is waited for nevertheless:
	// its quota is spent.
	going context.Context
	stop  context.CancelFunc

	mu      sync.Mutex            // guards what follows, and the task while several are at it
	due     []sqlstore.TrackedURL // from the front, and to probe from the back
	budget  int                   // inspections that Options.Max leaves; negative: no bound
	allowed bool                  // the upstream let somebody inspect a URL of the property today
	vain    int                   // refusals in a row, see failed
	failure error                 // the last; nil for none
	end     error                 // why it was stopped; nil while it was not
}

// inspectAll inspects what is due. complete tells that nothing is left that could be done today.
func (r *run) inspectAll(ctx context.Context, t *task, tracked, due []sqlstore.TrackedURL) (complete bool, err error) {
	x := &inspection{run: r, task: t, due: due, budget: -1}
	if r.opts.Max != nil {
		x.budget = *r.opts.Max
	}
	x.going, x.stop = context.WithCancel(ctx)
	defer x.stop()
	today := r.calendar.Day(t.began)
	for _, u := range tracked {
		x.allowed = x.allowed || u.InspectedAt != nil && r.calendar.Day(*u.InspectedAt) >= today
	}
	if err := t.resting(); err != nil {
		t.Left = len(due)
		return false, err
	}
	planned := len(due)
	if x.budget >= 0 {
		planned = min(planned, x.budget)
	}
	if planned > 0 {
		r.config.Progress.Started(t.Property, planned)
	}
	x.work(ctx)
	t.Left = len(due) - t.Inspected
	if x.end == nil && t.Inspected == 0 && x.failure != nil {
		x.end = x.inVain()
	}
	switch {
	case errors.Is(x.end, errDayUsedUp):
		t.Why = errDayUsedUp
		return true, nil
	case x.end == nil && t.Left > 0 && x.failure != nil:
		t.Why = fmt.Errorf("URLs were skipped, for example: %w", x.failure)
	}
	return x.end == nil && len(x.due) == 0, x.end
}

// resting is the refusal of a site that is not to be asked yet. If there is none, the site rests no more.
func (t *task) resting() error {
	if until := t.state.RestsUntil; until != nil && until.After(t.began) {
		return &schedule.Refusal{Class: schedule.Quota, Rest: until.Sub(t.began),
			Err: fmt.Errorf("the upstream's quota for the site is used up until %s", until.UTC().Format(time.RFC3339))}
	}
	t.state.RestsUntil = nil
	return nil
}

// work inspects one URL after the other until the property is known to be allowed, and several at a time from then on.
func (x *inspection) work(ctx context.Context) {
	for !x.allowed && x.next(ctx) {
	}
	var workers sync.WaitGroup
	for range x.config.ParallelInspections {
		workers.Go(func() {
			for x.next(ctx) {
			}
		})
	}
	workers.Wait()
}

// next inspects one URL, and reports whether there may be another.
func (x *inspection) next(ctx context.Context) bool {
	url, probe, ok := x.take()
	if !ok {
		return false
	}
	answer, err := x.ask(ctx, url)
	if err != nil {
		return x.failed(url, probe, err)
	}
	if err := x.stage(ctx, url, answer); err != nil {
		x.finish(err)
		return false
	}
	x.mu.Lock()
	x.task.Inspected++
	x.allowed, x.vain = true, 0
	x.mu.Unlock()
	x.config.Progress.Inspected(x.task.Property, url)
	return true
}

// take returns the URL that is next. When nothing was answered for a while, that is the last one of the plan as a probe: it is
// the one that was inspected most recently, if any was, and shows whether anything can be.
func (x *inspection) take() (url string, probe, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.end != nil || len(x.due) == 0 || x.budget == 0 || x.going.Err() != nil {
		return "", false, false
	}
	x.budget--
	if probe = x.vain >= refusals-1; probe {
		url, x.due = x.due[len(x.due)-1].URL, x.due[:len(x.due)-1]
	} else {
		url, x.due = x.due[0].URL, x.due[1:]
	}
	return url, probe, true
}

// failed decides what a failure means for the other URLs, and reports whether there may be another. A URL that is refused, or
// gets no answer while others do, is skipped; but not for ever.
func (x *inspection) failed(url string, probe bool, err error) bool {
	if x.going.Err() != nil { // it was not asked, or not waited for
		return false
	}
	class := schedule.ClassOf(err)
	switch {
	case errors.Is(err, errDayUsedUp), class == schedule.ConnectionLost:
		x.finish(err)
		return false
	case class == schedule.Quota:
		until := x.calendar.Start(x.calendar.Day(x.config.Now()) + 1)
		x.mu.Lock()
		x.task.state.RestsUntil = &until
		x.mu.Unlock()
		x.finish(err)
		return false
	}
	x.mu.Lock()
	x.failure = fmt.Errorf("inspect %s: %w", url, err)
	if x.vain++; class == schedule.Unavailable {
		x.vain = max(x.vain, refusals-1) // it was tried often enough
	}
	over := probe && x.vain >= refusals
	x.mu.Unlock()
	if over {
		x.finish(x.inVain())
	}
	return !over
}

// inVain is the error of a property of which nothing is inspected.
func (x *inspection) inVain() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.allowed || schedule.ClassOf(x.failure) == schedule.Unavailable {
		return x.failure
	}
	return &schedule.Refusal{Class: schedule.AccessLost, Err: fmt.Errorf(
		"the upstream refuses inspections, which need an owner of the property or a full user: %w", x.failure)}
}

// finish stops the inspection. The first reason counts.
func (x *inspection) finish(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.end == nil {
		x.end = err
	}
	x.stop()
}

// ask asks for one URL, again if that may help. It does not when others are answered: then it is the URL.
func (x *inspection) ask(ctx context.Context, url string) (answer Inspection, err error) {
	err = x.patiently(x.going, x.task.Property, func() error {
		answer, err = x.once(ctx, url)
		if err != nil && schedule.ClassOf(err) == schedule.Unavailable && x.flows() {
			return &schedule.Refusal{Class: schedule.Rejected, Err: err}
		}
		return err
	})
	return answer, err
}

// flows reports whether the last URL that was asked for in this run was answered.
func (x *inspection) flows() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.task.Inspected > 0 && x.vain == 0
}

// once asks for one URL when it may be asked.
func (x *inspection) once(ctx context.Context, url string) (Inspection, error) {
	p := x.task.Property
	if err := x.pace.Turn(x.going,
		schedule.Limit{Name: "site " + p.Site, PerMinute: x.config.PerSite, Burst: min(longestBurst, x.config.PerSite/burstShare)},
		schedule.Limit{Name: "all", PerMinute: x.config.Total}); err != nil {
		return Inspection{}, err
	}
	if err := schedule.GiveWay(x.going, x.config.Busy, x.config.BusyLimit); err != nil {
		return Inspection{}, err
	}
	if err := x.connected(p); err != nil {
		return Inspection{}, err
	}
	if err := x.granted(p); err != nil {
		return Inspection{}, err
	}
	asking, cancel := outliving(ctx, askLimit)
	defer cancel()
	answer, err := x.config.Source.Inspect(asking, p, url)
	x.heard(p, err)
	return answer, err
}

// outliving returns a context that ends some time after ctx: what is asked has been paid for, and the answer may be near.
func outliving(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if schedule.Pause(longer, d) == nil {
			cancel()
		}
	})
	return longer, func() { stop(); cancel() }
}

// granted waits for an inspection to be granted.
func (x *inspection) granted(p Property) error {
	for {
		granted, wait, err := x.config.Quota.Take(x.going, p.Site, x.calendar.Day(x.config.Now()))
		switch {
		case err != nil:
			return fmt.Errorf("count an inspection: %w", err)
		case granted:
			return nil
		case wait <= 0:
			return errDayUsedUp
		}
		if err := schedule.Pause(x.going, wait); err != nil {
			return err
		}
	}
}

// stage puts an answer aside. It was paid for, and so it is kept even if ctx has just ended.
func (x *inspection) stage(ctx context.Context, url string, answer Inspection) error {
	p := x.task.Property
	bucket, known := translate.BucketOf(answer.CoverageState)
	if !known {
		x.config.Progress.UnknownLabel(p, answer.CoverageState)
	}
	result := sqlstore.Inspection{URL: url, CoverageState: answer.CoverageState, Bucket: bucket, Verdict: answer.Verdict,
		LastCrawl: optional(answer.LastCrawl), At: x.config.Now()}
	return x.patiently(x.going, p, func() error {
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveLimit)
		defer cancel()
		return x.config.Store.StageInspection(saving, p.ID, result)
	})
}

// connected returns why nothing can be read through the property's connection, if that is known.
func (r *run) connected(p Property) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost[p.Connection]
}

// heard remembers what an error of the upstream means for the other properties.
func (r *run) heard(p Property, err error) {
	if schedule.ClassOf(err) != schedule.ConnectionLost {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[p.Connection] = err
}

// patiently tries something until it succeeds, fails for good, or has failed too often. What was not answered is tried again
// after pauses, and what the upstream's quota forbids once: it may be that of a minute, and otherwise is that of the day.
func (r *run) patiently(ctx context.Context, p Property, try func() error) error {
	for vain, overdrawn := 0, false; ; vain++ {
		err := try()
		if err == nil || context.Cause(ctx) != nil {
			return err
		}
		wait := r.config.RetryPause << vain
		switch class := schedule.ClassOf(err); {
		case errors.Is(err, errDayUsedUp):
			return err
		case class == schedule.Unavailable && vain < patience-1:
		case class == schedule.Quota && !overdrawn:
			overdrawn, wait = true, r.config.RetryPause
		default:
			return err
		}
		r.config.Progress.Paused(p, r.config.Now().Add(wait), err)
		if err := schedule.Pause(ctx, wait); err != nil {
			return err
		}
	}
}
