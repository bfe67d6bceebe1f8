package schedule

import (
	"context"
	"sync"
	"time"
)

// A Limit bounds the rate of calls that share something, such as their site.
type Limit struct {
	Name      string // of the token bucket; limits with the same name share it
	PerMinute int
	Burst     int // the size of the bucket; 0 means 1. No minute has more than PerMinute + Burst calls
}

// A Limiter spaces calls by any number of token buckets in the memory of this process. The zero value is ready to use. It is safe for
// concurrent use, and must not be copied.
//
// Unlike several rate.Limiters of golang.org/x/time, it takes a token from all the buckets or from none, so a call that waits for
// one bucket holds no tokens of another.
type Limiter struct {
	mu   sync.Mutex
	full map[string]time.Time // when the bucket of a name is full again (the GCRA form of a token bucket)
}

// Wait blocks until all the limits allow one more call, and counts it. It fails only if ctx has ended.
func (l *Limiter) Wait(ctx context.Context, limits ...Limit) error {
	for wait := l.take(limits); wait > 0; wait = l.take(limits) {
		if err := Sleep(ctx, wait); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// take takes a token from every bucket and returns 0, or takes none and returns how long until all have one.
func (l *Limiter) take(limits []Limit) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full == nil {
		l.full = make(map[string]time.Time)
	}
	now := time.Now()
	for _, limit := range limits {
		tolerance := time.Duration(max(limit.Burst, 1)-1) * limit.interval()
		wait = max(wait, l.full[limit.Name].Add(-tolerance).Sub(now))
	}
	if wait > 0 {
		return wait
	}
	for _, limit := range limits {
		full := l.full[limit.Name]
		if full.Before(now) {
			full = now
		}
		l.full[limit.Name] = full.Add(limit.interval())
	}
	return 0
}

// interval is the time in which the bucket gains one token, rounded up.
func (l Limit) interval() time.Duration {
	n := time.Duration(l.PerMinute)
	return (time.Minute + n - 1) / n
}

// Sleep waits for d. If ctx ends first, it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// busyPoll is how often yieldToTraffic checks whether the server is still busy.
const busyPoll = 250 * time.Millisecond

// yieldToTraffic waits while the server is busy with customers' requests, but at most for limit, so steady traffic
// cannot starve a job. It fails only if ctx has ended.
func yieldToTraffic(ctx context.Context, busy func() bool, limit time.Duration) error {
	for waited := time.Duration(0); waited < limit && busy(); waited += busyPoll {
		if err := Sleep(ctx, busyPoll); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
