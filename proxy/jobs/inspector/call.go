package inspector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
)

// inspectURL inspects one URL with retries. It does not retry while other URLs are answered, because then the URL is the problem.
func (x *inspection) inspectURL(ctx context.Context, url string) (status upstream.Inspection, err error) {
	err = x.retry(x.active, x.task.Property, func() error {
		status, err = x.call(ctx, url)
		if err != nil && schedule.KindOf(err) == upstream.Unavailable && x.othersAnswered() {
			return unanswered{err}
		}
		return err
	})
	return status, err
}

// unanswered is an outage that affects one URL while others are answered.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

func isUnanswered(err error) bool {
	_, ok := errors.AsType[unanswered](err)
	return ok
}

// othersAnswered reports whether the last URL inspected in this run was answered.
func (x *inspection) othersAnswered() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.task.Inspected > 0 && x.rejected == 0
}

// call makes one call when the limits, the traffic of customers and the quota allow it.
func (x *inspection) call(ctx context.Context, url string) (upstream.Inspection, error) {
	p := x.task.Property
	limit := schedule.Limit{Name: "site " + p.Site, PerMinute: x.config.PerSite, Burst: min(maxBurst, x.config.PerSite/burstFraction)}
	if err := x.config.Pace(x.active, &x.limiter, limit); err != nil {
		return upstream.Inspection{}, err
	}
	if err := x.lost.Err(p.Target); err != nil {
		return upstream.Inspection{}, err
	}
	calling, cancel := withGrace(ctx, callGrace)
	defer cancel()
	status, err := x.config.Gateway.Inspect(calling, p.Target, url, func(context.Context) error { return x.takeQuota(p) })
	x.lost.Note(p.Target, err)
	return status, err
}

// withGrace returns a context that ends d after ctx: the quota of a call in flight is spent, and its answer may be about to arrive.
func withGrace(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if schedule.Sleep(longer, d) == nil {
			cancel()
		}
	})
	return longer, func() { stop(); cancel() }
}

// takeQuota waits until an inspection is granted.
func (x *inspection) takeQuota(p Property) error {
	for {
		granted, wait, err := x.config.Quota.Take(x.active, p.Site, x.calendar.Day(x.config.Now()))
		switch {
		case err != nil:
			return fmt.Errorf("count an inspection: %w", err)
		case granted:
			return nil
		case wait <= 0:
			return errDayUsedUp
		}
		if err := schedule.Sleep(x.active, wait); err != nil {
			return err
		}
	}
}

// retry calls try until it succeeds, fails for good, or has used up its attempts. An outage is retried with exponential
// backoff. A quota error is retried once, because it may concern the minute; if the retry fails too, it concerns the day.
func (r *run) retry(ctx context.Context, p Property, try func() error) error {
	for failed, overQuota := 1, false; ; failed++ {
		err := try()
		if err == nil || context.Cause(ctx) != nil {
			return err
		}
		pause, again := schedule.Backoff(r.config.RetryPause, failed)
		switch kind := schedule.KindOf(err); {
		case errors.Is(err, errDayUsedUp), isUnanswered(err):
			return err
		case kind == upstream.Unavailable && again:
		case kind == upstream.Quota && !overQuota:
			overQuota, pause = true, r.config.RetryPause
		default:
			return err
		}
		r.reportPause(p, r.config.Now().Add(pause), err)
		if err := schedule.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// reportPause reports a pause, unless the property is in one that another of its workers has reported.
func (r *run) reportPause(p Property, until time.Time, reason error) {
	r.pausing.Lock()
	reported := r.paused[p.PropertyID].After(r.config.Now())
	if !reported {
		r.paused[p.PropertyID] = until
	}
	r.pausing.Unlock()
	if !reported {
		r.config.Progress.Paused(p.Target, until, reason)
	}
}
