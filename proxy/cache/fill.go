package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"sara/proxy/spans"
)

var errClosed = errors.New("the cache is closed")

// flights are the running fills of this process: singleflight, one flight a key. x/sync/singleflight is not enough, because a
// flight first looks into memory, may fail for one waiter only, and ends with Close.
type flights struct {
	mu      sync.Mutex
	byKey   map[string]*flight
	closed  bool
	running sync.WaitGroup // grows under mu, and never after closed is set
}

// flight is a fill that any number of requests wait for.
type flight struct {
	outcome
	done chan struct{} // closed when the outcome is there
	span spans.Span    // of the fill
}

// outcome is the result of a fill.
type outcome struct {
	entry   *Entry
	status  Status // Filled, or how another replica's fill was found
	err     error
	shared  bool   // all waiters get the error
	refused bool   // Request.Reserve refused: all waiters of this process get the error
	encoded []byte // the error as ErrorCodec encodes it
	token   string // of the lease in Redis that this flight holds; "" for none
	release func() // gives back what Request.Reserve reserved; nil: nothing
}

func (f *flights) has(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byKey[key] != nil
}

// Filling reports whether a fill is running in this process.
func (c *Cache) Filling() bool {
	c.flights.mu.Lock()
	defer c.flights.mu.Unlock()
	return len(c.flights.byKey) > 0
}

// finish wakes the waiters of a flight. Later requests start another one.
func (f *flights) finish(key string, finished *flight) {
	f.mu.Lock()
	delete(f.byKey, key)
	f.mu.Unlock()
	close(finished.done)
}

// close makes every new flight fail.
func (f *flights) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

func finishedFlight(o outcome) *flight {
	f := &flight{outcome: o, done: make(chan struct{})}
	close(f.done)
	return f
}

// join returns the flight of a lookup, and whether it was started for this caller. A shared failure marks the stale entry.
// The flight takes only the trace from ctx, not its deadline.
func (c *Cache) join(ctx context.Context, l *lookup, stale *Entry) (f *flight, leader bool) {
	c.flights.mu.Lock()
	defer c.flights.mu.Unlock()
	if f = c.flights.byKey[l.flightKey]; f != nil {
		return f, false
	}
	if c.flights.closed {
		return finishedFlight(outcome{err: errClosed}), true
	}
	if !l.Bypass {
		// Another flight may have finished since this caller looked.
		if found := c.fromMemory(&l.Request); found.Entry != nil && !found.Stale {
			return finishedFlight(outcome{entry: found.Entry, status: HitMemory}), true
		}
	}
	running, span := spans.Detach(c.running, ctx, "fill")
	f = &flight{done: make(chan struct{}), span: span}
	if c.flights.byKey == nil {
		c.flights.byKey = map[string]*flight{}
	}
	c.flights.byKey[l.flightKey] = f
	c.flights.running.Go(func() { c.run(running, f, l, stale) })
	return f, true
}

// await joins a flight and waits for it. If it fails, await returns the stale entry with the error. After an error that
// concerns only the leader of the flight, a waiter starts its own.
func (c *Cache) await(ctx context.Context, l *lookup, has Found) (Found, error) {
	_, span := spans.Start(ctx, "wait for rows")
	defer span.End()
	for {
		if ctx.Err() != nil {
			return has, waitError(ctx, l) // start no flight for a caller that has left
		}
		f, leader := c.join(ctx, l, has.Entry)
		span.Link(f.span)
		select {
		case <-f.done:
		case <-ctx.Done():
			return has, waitError(ctx, l)
		}
		switch {
		case f.err == nil && leader:
			if f.status == Coalesced {
				c.metrics.awaitedReplica.Inc()
			}
			return Found{Entry: f.entry, Status: f.status}, nil
		case f.err == nil:
			c.metrics.awaitedProcess.Inc()
			return Found{Entry: f.entry, Status: Coalesced}, nil
		case leader || f.shared || f.refused:
			if has.Entry != nil {
				c.metrics.failing.Inc()
			}
			return has, f.err
		}
	}
}

func waitError(ctx context.Context, l *lookup) error {
	return fmt.Errorf("wait for the rows of %s: %w", l.Query.Site, context.Cause(ctx))
}

// run is the goroutine of a flight: it fills, wakes the waiters of this process, and then writes to Redis for the other
// replicas (write-behind: no request waits for it).
func (c *Cache) run(running context.Context, f *flight, l *lookup, stale *Entry) {
	f.span.Set("sara.property", l.PropertyID)
	f.span.Set("sara.dimension", l.Query.Dimension.String())
	ctx, cancel := context.WithTimeout(running, c.fillTimeout)
	defer cancel()
	f.outcome = c.fill(ctx, l)
	f.span.End()
	switch {
	case f.err == nil:
		c.memory.putEntry(f.entry, l.AccountID)
	case f.shared && stale != nil:
		stale.refillFailed.Store(true)
	}
	if c.redis == nil {
		f.free()
		c.flights.finish(l.flightKey, f)
		return
	}
	c.flights.finish(l.flightKey, f)
	c.redis.publish(l, &f.outcome)
	f.free()
}

// free gives back what the fill reserved.
func (o *outcome) free() {
	if o.release != nil {
		o.release()
	}
}

// fill gets the rows from the replica that holds the lease, which may become this one.
func (c *Cache) fill(ctx context.Context, l *lookup) outcome {
	if c.redis == nil || l.Bypass {
		return c.callUpstream(ctx, l)
	}
	for {
		lease := c.redis.lease(ctx, l)
		switch {
		case lease.entry != nil && c.now().Sub(lease.entry.filled) < l.TTL:
			return outcome{entry: lease.entry, status: lease.status, token: lease.token}
		case lease.token != "":
			return c.fillLeased(ctx, l, lease.token)
		case lease.redisDown:
			return c.callUpstream(ctx, l)
		case lease.failure != nil:
			return outcome{err: c.errors.Decode(lease.failure), shared: true, encoded: lease.failure}
		case ctx.Err() != nil:
			return c.failed(waitError(ctx, l))
		}
	}
}

// fillLeased calls the upstream and renews the lease meanwhile.
func (c *Cache) fillLeased(ctx context.Context, l *lookup, token string) outcome {
	renewing, stop := context.WithCancel(ctx)
	var renewal sync.WaitGroup
	renewal.Go(func() { c.redis.renew(renewing, l, token) })
	o := c.callUpstream(ctx, l)
	stop()
	renewal.Wait()
	o.token = token
	return o
}

func (c *Cache) callUpstream(ctx context.Context, l *lookup) outcome {
	var release func()
	if l.Reserve != nil {
		var err error
		if release, err = l.Reserve(ctx); err != nil {
			c.metrics.fillRefused.Inc()
			return outcome{err: err, refused: true}
		}
	}
	rows, err := l.Fill(ctx)
	if err != nil {
		o := c.failed(err)
		o.release = release
		if o.shared {
			c.metrics.fillFailed.Inc()
		} else {
			c.metrics.fillRefused.Inc()
		}
		return o
	}
	c.metrics.fillOK.Inc()
	return outcome{status: Filled, release: release, entry: &Entry{
		key: l.own.key, rows: rows, filled: c.now(), requestHash: l.RequestHash, id: rand.Uint64(),
	}}
}

// failed returns the outcome of an error. An error caused by the shutdown of this process is never shared.
func (c *Cache) failed(err error) outcome {
	encoded, shared := c.errors.Encode(err)
	return outcome{err: err, encoded: encoded, shared: shared && c.running.Err() == nil}
}
