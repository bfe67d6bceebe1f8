package inspector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sara/archive/sqlstore"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

// errDayUsedUp ends a property's inspections for today.
var errDayUsedUp = errors.New("the upstream's quota of the day is used up")

// inspection is the work on the URLs of one property.
type inspection struct {
	*run
	task *task
	// active ends when the work does. Calls in flight outlive it by up to callGrace, because their quota is spent.
	active context.Context
	stop   context.CancelFunc

	mu        sync.Mutex            // guards what follows, and the task while workers run
	due       []sqlstore.TrackedURL // the first is inspected next; a probe takes the last
	remaining int                   // inspections that Options.Max allows; negative: unbounded
	allowed   bool                  // the upstream answered an inspection of the property today
	rejected  int                   // consecutive failures, see failed
	failure   error                 // the last; nil for none
	end       error                 // why the work was stopped; nil while it runs
}

// inspectAll inspects what is due. complete is true if no work is left for today.
func (r *run) inspectAll(ctx context.Context, t *task, tracked, due []sqlstore.TrackedURL) (complete bool, err error) {
	x := &inspection{run: r, task: t, due: due, remaining: -1}
	if r.opts.Max != nil {
		x.remaining = *r.opts.Max
	}
	x.active, x.stop = context.WithCancel(ctx)
	defer x.stop()
	today := r.calendar.Day(t.began)
	for _, u := range tracked {
		x.allowed = x.allowed || u.InspectedAt != nil && r.calendar.Day(*u.InspectedAt) >= today
	}
	if err := t.cooldown(); err != nil {
		t.Left = len(due)
		return false, err
	}
	planned := len(due)
	if x.remaining >= 0 {
		planned = min(planned, x.remaining)
	}
	if planned > 0 {
		r.config.Progress.Started(t.Property.Target, planned)
	}
	x.work(ctx)
	t.Left = len(due) - t.Inspected
	if x.end == nil && t.Inspected == 0 && x.failure != nil {
		x.end = x.allFailed()
	}
	switch {
	case errors.Is(x.end, errDayUsedUp):
		t.Why = errDayUsedUp
		return true, nil
	case x.end == nil && x.failure != nil:
		t.Why = fmt.Errorf("URLs were skipped, for example: %w", x.failure)
	}
	return x.end == nil && len(x.due) == 0, x.end
}

// cooldown returns an error if the site is in cooldown; otherwise it clears an expired one from the state.
func (t *task) cooldown() error {
	if until := t.state.CooldownUntil; until != nil && schedule.IsCooling(*until, t.began) {
		return schedule.NewCooldownError(*until, t.began)
	}
	t.state.CooldownUntil = nil
	return nil
}

// work inspects one URL at a time until the upstream has answered one, and from then on several in parallel.
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

// next inspects one URL, if the work continues, and reports whether it did.
func (x *inspection) next(ctx context.Context) bool {
	url, probe, ok := x.take()
	if !ok {
		return false
	}
	if status, err := x.inspectURL(ctx, url); err != nil {
		x.failed(url, probe, err)
	} else if err := x.stage(ctx, url, status); err != nil {
		x.finish(err)
	} else {
		x.advance(url)
	}
	return true
}

// advance counts a URL whose result is staged.
func (x *inspection) advance(url string) {
	x.mu.Lock()
	x.task.Inspected++
	x.allowed, x.rejected = true, 0
	x.mu.Unlock()
	x.config.Progress.Advanced(x.task.Property.Target, url)
}

// take returns the next URL. After several consecutive failures it takes the last of the plan as a probe: it was inspected
// most recently, if any was, so it shows whether anything can be inspected.
func (x *inspection) take() (url string, probe, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.due) == 0 || x.remaining == 0 || x.active.Err() != nil {
		return "", false, false
	}
	x.remaining--
	if probe = x.rejected >= maxRejections-1; probe {
		url, x.due = x.due[len(x.due)-1].URL, x.due[:len(x.due)-1]
	} else {
		url, x.due = x.due[0].URL, x.due[1:]
	}
	return url, probe, true
}

// failed decides what the failure of one URL means for the others. A URL that is rejected, or gets no answer while others do, is
// skipped; a failed probe ends the work.
func (x *inspection) failed(url string, probe bool, err error) {
	if x.active.Err() != nil { // the call was not made, or was cut off
		return
	}
	kind := schedule.KindOf(err)
	switch {
	case errors.Is(err, errDayUsedUp), schedule.IsConnectionLost(err):
		x.finish(err)
		return
	case kind == upstream.Quota:
		until := x.cooldownAfter(err)
		x.mu.Lock()
		x.task.state.CooldownUntil = &until
		x.mu.Unlock()
		x.finish(fmt.Errorf("%w; inspections of the site can continue at %s", err, until.UTC().Format(time.RFC3339)))
		return
	}
	x.mu.Lock()
	x.failure = fmt.Errorf("inspect %s: %w", url, err)
	x.rejected++
	if kind == upstream.Unavailable && !isUnanswered(err) {
		x.rejected = max(x.rejected, maxRejections-1) // its retries are exhausted: probe next
	}
	over := probe && x.rejected >= maxRejections
	x.mu.Unlock()
	if over {
		x.finish(x.allFailed())
	}
}

// Cooldowns after the upstream has refused inspections for their rate: exponential, between these bounds.
const (
	firstCooldown   = 2 * time.Minute
	longestCooldown = time.Hour
)

// cooldownAfter returns the end of a site's cooldown after a quota refusal. For a daily quota it is the next day of the upstream's
// calendar. A quota per minute recovers soon, but if runs keep failing, something else is using it.
func (x *inspection) cooldownAfter(err error) time.Time {
	now := x.config.Now()
	refusal, ok := errors.AsType[*upstream.Error](err)
	if ok && refusal.Daily {
		return x.calendar.Start(x.calendar.Day(now) + 1)
	}
	pause := firstCooldown
	for range min(x.task.state.Failures, 10) {
		pause *= 2
	}
	if ok {
		pause = max(pause, refusal.RetryAfter)
	}
	return now.Add(min(pause, longestCooldown))
}

// allFailed is the error of a property for which no URL could be inspected.
func (x *inspection) allFailed() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.allowed || schedule.KindOf(x.failure) == upstream.Unavailable {
		return x.failure
	}
	return fmt.Errorf("the upstream refuses inspections, which need an owner of the property or a full user: %w", x.failure)
}

// finish stops the work. Only the first reason counts.
func (x *inspection) finish(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.end == nil {
		x.end = err
	}
	x.stop()
}

// UnknownLabel is the notice of a coverage label that maps to no bucket.
type UnknownLabel string

func (l UnknownLabel) String() string {
	return fmt.Sprintf("Search Console reports %q, which is in no known bucket", string(l))
}

// stage keeps a result until it is published. Its quota is spent, so it is staged even if ctx has just ended.
func (x *inspection) stage(ctx context.Context, url string, status upstream.Inspection) error {
	p := x.task.Property
	bucket, known := translate.BucketOf(status.CoverageState)
	if !known {
		x.config.Progress.Noticed(p.Target, UnknownLabel(status.CoverageState))
	}
	result := sqlstore.Inspection{URL: url, CoverageState: status.CoverageState, Bucket: bucket, Verdict: status.Verdict,
		LastCrawl: optional(status.LastCrawl), At: x.config.Now()}
	return x.retry(x.active, p, func() error {
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
		defer cancel()
		return x.config.Store.StageInspection(saving, p.PropertyID, result)
	})
}
