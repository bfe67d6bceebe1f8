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

// flights are the fills under way in this process, one a key.
type flights struct {
	mu      sync.Mutex
	byKey   map[string]*flight
	closed  bool
	running sync.WaitGroup // joined under mu, and not once closed
}

// flight is a fill that any number of calls wait for.
type flight struct {
	outcome
	done chan struct{} // closed once the outcome is there
	span spans.Span    // of the fill
}

// outcome is what came of a fill.
type outcome struct {
	entry  *Entry
	how    Status // Filled, or by which way somebody else's fill came
	err    error
	shared bool   // the error is everybody's who waited
	notice []byte // the error as ErrorCodec encodes it
	token  string // of the lease that is held in Redis; "" for none
}

// under reports whether a fill of the key is under way.
func (f *flights) under(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byKey[key] != nil
}

// Filling reports whether a fill is under way in this process.
func (c *Cache) Filling() bool {
	c.flights.mu.Lock()
	defer c.flights.mu.Unlock()
	return len(c.flights.byKey) > 0
}

// land ends a flight: whoever comes now starts another.
func (f *flights) land(key string, ended *flight) {
	f.mu.Lock()
	delete(f.byKey, key)
	f.mu.Unlock()
	close(ended.done)
}

// refuse has every new flight end at once.
func (f *flights) refuse() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// landed is a flight that is over.
func landed(o outcome) *flight {
	f := &flight{outcome: o, done: make(chan struct{})}
	close(f.done)
	return f
}

// join returns the flight that fills the question and whether it was started for this call. Stale is the copy that a
// failure is remembered with. Of ctx the flight takes no more than which trace it belongs to.
func (c *Cache) join(ctx context.Context, i *lookup, stale *Entry) (f *flight, leads bool) {
	c.flights.mu.Lock()
	defer c.flights.mu.Unlock()
	if f = c.flights.byKey[i.flight]; f != nil {
		return f, false
	}
	if c.flights.closed {
		return landed(outcome{err: errClosed}), true
	}
	if !i.Bypass {
		// A flight may have landed since this call looked.
		if now := c.recall(&i.Request); now.Entry != nil && !now.Stale {
			return landed(outcome{entry: now.Entry, how: HitMemory}), true
		}
	}
	running, span := spans.Detach(c.running, ctx, "fill")
	f = &flight{done: make(chan struct{}), span: span}
	if c.flights.byKey == nil {
		c.flights.byKey = map[string]*flight{}
	}
	c.flights.byKey[i.flight] = f
	c.flights.running.Go(func() { c.fly(running, f, i, stale) })
	return f, true
}

// await returns what a flight brings. Has is the copy there is, for the case that it fails. After an error that concerns
// only the one who started the flight, the call tries for itself.
func (c *Cache) await(ctx context.Context, i *lookup, has Found) (Found, error) {
	_, span := spans.Start(ctx, "wait for rows")
	defer span.End()
	for {
		if ctx.Err() != nil {
			return has, waited(ctx, i) // nobody is left to ask for
		}
		f, leads := c.join(ctx, i, has.Entry)
		span.Link(f.span)
		select {
		case <-f.done:
		case <-ctx.Done():
			return has, waited(ctx, i)
		}
		switch {
		case f.err == nil && leads:
			if f.how == Coalesced {
				c.metrics.awaitedReplica.Inc()
			}
			return Found{Entry: f.entry, Status: f.how}, nil
		case f.err == nil:
			c.metrics.awaitedProcess.Inc()
			return Found{Entry: f.entry, Status: Coalesced}, nil
		case leads || f.shared:
			if has.Entry != nil {
				c.metrics.failing.Inc()
			}
			return has, f.err
		}
	}
}

func waited(ctx context.Context, i *lookup) error {
	return fmt.Errorf("wait for the rows of %s: %w", i.Query.Site, context.Cause(ctx))
}

// fly fills a question, tells those who wait, and then the other replicas.
func (c *Cache) fly(running context.Context, f *flight, i *lookup, stale *Entry) {
	f.span.Set("sara.property", i.PropertyID)
	f.span.Set("sara.dimension", i.Query.Dimension.String())
	ctx, cancel := context.WithTimeout(running, c.fillTimeout)
	defer cancel()
	f.outcome = c.obtain(ctx, i)
	f.span.End()
	switch {
	case f.err == nil:
		c.memory.putEntry(f.entry, i.AccountID)
	case f.shared && stale != nil:
		stale.failing.Store(true)
	}
	c.flights.land(i.flight, f)
	if c.redis != nil {
		c.redis.settle(i, &f.outcome)
	}
}

// obtain has the question filled by whichever replica may.
func (c *Cache) obtain(ctx context.Context, i *lookup) outcome {
	if c.redis == nil || i.Bypass {
		return c.fill(ctx, i)
	}
	for {
		turn := c.redis.lease(ctx, i)
		switch {
		case turn.entry != nil && c.now().Sub(turn.entry.filled) < i.TTL:
			return outcome{entry: turn.entry, how: turn.how, token: turn.token}
		case turn.token != "":
			return c.fillLeased(ctx, i, turn.token)
		case turn.alone:
			return c.fill(ctx, i)
		case turn.failure != nil:
			return outcome{err: c.errors.Decode(turn.failure), shared: true, notice: turn.failure}
		case ctx.Err() != nil:
			return c.failed(waited(ctx, i))
		}
	}
}

// fillLeased asks the upstream while the lease is renewed.
func (c *Cache) fillLeased(ctx context.Context, i *lookup, token string) outcome {
	renewing, stop := context.WithCancel(ctx)
	var renewal sync.WaitGroup
	renewal.Go(func() { c.redis.renew(renewing, i, token) })
	o := c.fill(ctx, i)
	stop()
	renewal.Wait()
	o.token = token
	return o
}

// fill asks the upstream.
func (c *Cache) fill(ctx context.Context, i *lookup) outcome {
	rows, err := i.Fill(ctx)
	if err != nil {
		o := c.failed(err)
		if o.shared {
			c.metrics.fillFailed.Inc()
		} else {
			c.metrics.fillRefused.Inc()
		}
		return o
	}
	c.metrics.fillOK.Inc()
	return outcome{how: Filled, entry: &Entry{
		key: i.own.key, rows: rows, filled: c.now(), requestHash: i.RequestHash, id: rand.Uint64(),
	}}
}

// failed tells whose error it is. The end of this process is nobody else's.
func (c *Cache) failed(err error) outcome {
	notice, shared := c.errors.Encode(err)
	return outcome{err: err, notice: notice, shared: shared && c.running.Err() == nil}
}
