package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"sara/policy/panics"
	"sara/proxy/spans"
	"sara/translate"
)

// enter returns a seat in the flight of a lookup once it has looked into Redis. It fails only if the caller has left.
func (c *Cache) enter(ctx context.Context, l *lookup, has Found) (seat, error) {
	if ctx.Err() != nil {
		return seat{}, waitError(ctx, l) // start no flight for it
	}
	in := c.join(l)
	if in.leads {
		c.lead(ctx, in.flight, l, has)
		return in, nil // it has looked
	}
	select {
	case <-in.looked.wait():
		return in, nil
	case <-ctx.Done():
		return seat{}, waitError(ctx, l)
	}
}

// afterSibling waits for a running fill of the other sample of the same rows, if there is one, and returns its rows if they answer the
// request too: then a second call would add nothing.
func (c *Cache) afterSibling(ctx context.Context, l *lookup) Found {
	for _, other := range l.others {
		f := c.flights.get(other.key)
		if f == nil {
			continue
		}
		select {
		case <-f.done.wait():
		case <-ctx.Done():
			return Found{}
		}
		if found := c.fromMemory(&l.Request); found.Entry != nil && !found.Stale {
			found.Status = Coalesced
			return found
		}
	}
	return Found{}
}

// errAbandoned is the outcome of a flight until another is set, and so if a panic ends it.
var errAbandoned = errors.New("BUG: the look-up of rows was abandoned")

// lead looks into Redis for a new flight, and starts its fill unless there are fresh rows. A shared failure marks the stale entry.
// The fill takes only the trace from ctx, not its deadline. If the caller left before it could read a copy, the fill looks again.
func (c *Cache) lead(ctx context.Context, f *flight, l *lookup, has Found) {
	if f.done.wasOpened() { // it needs no fill
		return
	}
	defer c.flights.running.Done()
	fills := false
	defer func() {
		f.looked.open()
		if !fills {
			c.flights.finish(l.flightKey, f)
		}
	}()
	f.err = errAbandoned
	token := ""
	if c.redis != nil && !l.Bypass {
		found := c.redis.look(ctx, l, c.besides(l))
		f.copied, token = found.entry, found.token
		has = c.take(l, has, found)
		f.failed = found.entry != nil && found.entry.refillFailed.Load()
		if has.Entry != nil && !has.Stale {
			f.outcome = outcome{entry: has.Entry, status: HitShared}
			return
		}
	}
	running, span := spans.Detach(c.running, ctx, "fill")
	f.span, fills = span, true
	c.flights.running.Go(func() { c.run(running, f, l, has.Entry, token) })
}

// await waits for a flight. If the flight fails, await returns the stale entry with the error. After an error that concerns only the
// flight's leader, a waiter starts its own flight.
func (c *Cache) await(ctx context.Context, l *lookup, has Found, in seat) (Found, error) {
	_, span := spans.Start(ctx, "wait for rows")
	defer span.End()
	for {
		span.Link(in.span)
		select {
		case <-in.done.wait():
		case <-ctx.Done():
			return has, waitError(ctx, l)
		}
		switch {
		case in.err == nil && in.leads:
			if in.status == Coalesced {
				c.metrics.awaitedReplica.Inc()
			}
			return Found{Entry: in.entry, Status: in.status}, nil
		case in.err == nil:
			c.metrics.awaitedProcess.Inc()
			return Found{Entry: in.entry, Status: Coalesced}, nil
		case in.leads || in.shared || in.refused:
			if has.Entry != nil {
				c.metrics.failing.Inc()
			}
			return has, in.err
		}
		var left error
		if in, left = c.enter(ctx, l, has); left != nil {
			return has, left
		}
	}
}

func waitError(ctx context.Context, l *lookup) error {
	return fmt.Errorf("wait for the rows of %s: %w", l.Query.Site, context.Cause(ctx))
}

// run is the goroutine of a fill, with the lease if it was free: it fills, wakes the waiters of this process, and then writes to Redis for
// the other replicas (write-behind: no request waits for it).
func (c *Cache) run(running context.Context, f *flight, l *lookup, stale *Entry, token string) {
	var bug error
	defer func() { c.abort(l, f, bug) }()
	defer panics.Recover(&bug)
	f.span.Set("sara.property", l.PropertyID)
	f.span.Set("sara.dimension", l.Query.Dimension.String())
	ctx, cancel := context.WithTimeout(running, c.fillTimeout)
	defer cancel()
	f.outcome = c.fill(ctx, l, token)
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
	if f.settled != nil {
		f.settled()
	}
	c.redis.publish(l, &f.outcome)
	f.free()
}

// abort ends the flight of a fill if there was a bug in it, and releases its lease.
func (c *Cache) abort(l *lookup, f *flight, bug error) {
	if bug == nil {
		return
	}
	c.log.Error("BUG: a fill of the cache has panicked", "error", bug)
	failed := outcome{err: bug, token: f.token, release: f.release}
	if !f.done.wasOpened() {
		f.outcome = failed
		c.flights.finish(l.flightKey, f)
	}
	if c.redis != nil {
		c.redis.publish(l, &failed)
	}
	f.free()
}

// free releases what the fill reserved.
func (o *outcome) free() {
	if o.release != nil {
		o.release()
	}
}

// fill gets the rows from the replica that holds the lease. This replica may become the holder; with a token, it already is.
func (c *Cache) fill(ctx context.Context, l *lookup, token string) outcome {
	switch {
	case c.redis == nil || l.Bypass:
		return c.callUpstream(ctx, l)
	case token != "":
		return c.fillLeased(ctx, l, token)
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

// fillLeased calls the upstream and meanwhile renews the lease.
func (c *Cache) fillLeased(ctx context.Context, l *lookup, token string) outcome {
	stop, settled := c.redis.renew(ctx, l, token)
	o := c.callUpstream(ctx, l)
	stop()
	o.token, o.settled = token, settled
	return o
}

func (c *Cache) callUpstream(ctx context.Context, l *lookup) outcome {
	var release func()
	if l.Reserve != nil {
		var err error
		if release, err = l.reserve(ctx); err != nil {
			c.metrics.fillRefused.Inc()
			return outcome{err: err, refused: true}
		}
	}
	if l.Along != nil && c.redis != nil && time.Since(l.began) > c.redis.limits.along {
		l.Along.Read = false
	}
	began := c.now() // see Entry.Filled
	rows, err := l.fill(ctx)
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
		key: l.own.key, rows: rows, filled: began, requestHash: l.RequestHash, id: rand.Uint64(),
	}}
}

func (r *Request) reserve(ctx context.Context) (release func(), err error) {
	defer panics.Recover(&err)
	return r.Reserve(ctx)
}

func (r *Request) fill(ctx context.Context) (rows *translate.Rows, err error) {
	defer panics.Recover(&err)
	return r.Fill(ctx)
}

// failed returns the outcome of an error. An error caused by the shutdown of this process is never shared.
func (c *Cache) failed(err error) outcome {
	encoded, shared := c.errors.Encode(err)
	return outcome{err: err, encoded: encoded, shared: shared && c.running.Err() == nil}
}
