package collector

import (
	"context"
	"sync"
	"time"
)

// A pace spaces calls evenly: a token bucket that holds one token, because the upstream counts bursts, too.
type pace struct {
	interval time.Duration

	mu   sync.Mutex
	next time.Time // when the next call may be made
}

func newPace(callsPerMinute int) *pace { return &pace{interval: time.Minute / time.Duration(callsPerMinute)} }

// take takes the next place and returns how long it is until then.
func (p *pace) take() time.Duration {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.next
	if at.Before(now) {
		at = now
	}
	p.next = at.Add(p.interval)
	return at.Sub(now)
}

// paces are the paces of all sites, or of all connections.
type paces struct {
	callsPerMinute int

	mu sync.Mutex
	of map[string]*pace
}

func newPaces(callsPerMinute int) *paces {
	return &paces{callsPerMinute: callsPerMinute, of: make(map[string]*pace)}
}

func (p *paces) take(name string) time.Duration {
	p.mu.Lock()
	one, ok := p.of[name]
	if !ok {
		one = newPace(p.callsPerMinute)
		p.of[name] = one
	}
	p.mu.Unlock()
	return one.take()
}

// turn waits until a call about the property may be made: the upstream's limits allow it, and no customer is in the way. A
// customer who stays longer than BusyLimit is not waited for: the upstream forgets a day every day.
func (r *run) turn(ctx context.Context, p Property) error {
	wait := max(r.bySite.take(p.Site), r.byConnection.take(p.Connection), r.total.take())
	if err := pause(ctx, wait); err != nil {
		return err
	}
	for waited := time.Duration(0); waited < r.config.BusyLimit && r.config.Busy(); waited += busyPause {
		if err := pause(ctx, busyPause); err != nil {
			return err
		}
	}
	return nil
}

// pause waits for d, or until ctx ends, which is an error.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
