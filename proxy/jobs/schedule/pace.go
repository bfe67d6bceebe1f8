package schedule

import (
	"context"
	"sync"
	"time"
)

// A Limit is how many calls that have something in common may be made.
type Limit struct {
	Name      string // of what they have in common
	PerMinute int
	Burst     int // how many of them may come at once; 0 is 1. No minute has more than PerMinute + Burst calls
}

// Pace spaces calls by any number of Limits, each a token bucket in this process's memory. The zero value is ready; it is
// safe for concurrent use, and must not be copied.
type Pace struct {
	mu   sync.Mutex
	full map[string]time.Time // when the bucket of a limit is full again
}

// Turn waits until all the limits allow one more call, which the caller makes then. It fails only when ctx has ended.
func (p *Pace) Turn(ctx context.Context, limits ...Limit) error {
	for wait := p.take(limits); wait > 0; wait = p.take(limits) {
		if err := Pause(ctx, wait); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// take takes a token of each bucket, or none and returns how long it is until they are there. Nobody holds a token of one
// bucket while waiting for another.
func (p *Pace) take(limits []Limit) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full == nil {
		p.full = make(map[string]time.Time)
	}
	now := time.Now()
	for _, l := range limits {
		spare := time.Duration(max(l.Burst, 1)-1) * l.between()
		wait = max(wait, p.full[l.Name].Add(-spare).Sub(now))
	}
	if wait > 0 {
		return wait
	}
	for _, l := range limits {
		full := p.full[l.Name]
		if full.Before(now) {
			full = now
		}
		p.full[l.Name] = full.Add(l.between())
	}
	return 0
}

// between is how long it takes until one more token is there, rounded up.
func (l Limit) between() time.Duration {
	n := time.Duration(l.PerMinute)
	return (time.Minute + n - 1) / n
}
