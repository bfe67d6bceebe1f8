package collector

import (
	"context"
	"sync"
	"time"

	"sara/archive/daily"
)

// pace spaces the calls about a site, through a connection, and all calls: token buckets that hold one token each, because
// the upstream counts bursts, too.
type pace struct {
	perSite, perConnection, perCall time.Duration // between two calls

	mu          sync.Mutex // guards when the next call may be made
	sites       map[string]time.Time
	connections map[string]time.Time
	all         time.Time
}

func newPace(c Config) *pace {
	between := func(callsPerMinute int) time.Duration { return time.Minute / time.Duration(callsPerMinute) }
	return &pace{perSite: between(c.PerSite), perConnection: between(c.PerConnection), perCall: between(c.Total),
		sites: make(map[string]time.Time), connections: make(map[string]time.Time)}
}

// take takes a token of each of the property's buckets, or none and returns how long it is until they are there. Nobody
// holds a token of one bucket while waiting for another.
func (c *pace) take(p Property) (wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, next := range []time.Time{c.sites[p.Site], c.connections[p.Connection], c.all} {
		wait = max(wait, next.Sub(now))
	}
	if wait > 0 {
		return wait
	}
	c.sites[p.Site] = now.Add(c.perSite)
	c.connections[p.Connection] = now.Add(c.perConnection)
	c.all = now.Add(c.perCall)
	return 0
}

// turn waits until a call about the property may be made: the upstream's limits allow it, and no customer is in the way. A
// customer who stays longer than BusyLimit is not waited for: the upstream forgets a day every day.
func (r *run) turn(ctx context.Context, p Property) error {
	for wait := r.pace.take(p); wait > 0; wait = r.pace.take(p) {
		if err := daily.Pause(ctx, wait); err != nil {
			return err
		}
	}
	return daily.GiveWay(ctx, r.config.Busy, r.config.BusyLimit)
}
