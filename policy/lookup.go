package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sync/singleflight"

	"sara/proxy/lru"
)

const (
	editionTTL    = time.Second      // how long the directory's edition is used without reading it again
	answerTTL     = 30 * time.Second // how long an answer is used while the version stays the same: the store may be edited by hand
	staleTTL      = 5 * time.Minute  // how long either is used while the directory fails (stale if error)
	lookupTimeout = time.Second      // bounds one call of the directory; must not exceed editionTTL
)

// A cache holds the directory's answers to one kind of lookup, including negative ones. Concurrent lookups of one key share
// one call (singleflight). The call has a context of its own, so that a caller that gives up does not fail the others.
type cache[K comparable, V any] struct {
	now     func() time.Time
	ttl     time.Duration
	load    func(context.Context, K) (V, error)
	answers *lru.Cache[K, answer[V]]
	flights singleflight.Group
}

// An answer is a result of load: a value, or an error that wraps ErrUnknown (negative cache).
type answer[V any] struct {
	value    V
	err      error
	loadedAt time.Time // when the call that returned it began
	triedAt  time.Time // when the last call began or failed; after loadedAt only while the directory fails
	version  version
}

func newCache[K comparable, V any](now func() time.Time, ttl time.Duration, size int,
	load func(context.Context, K) (V, error)) *cache[K, V] {
	return &cache[K, V]{now: now, ttl: ttl, load: load, answers: lru.New[K](lru.Config[answer[V]]{Weight: int64(size)})}
}

// get returns the answer for key: from the cache while it is fresh and of this version, from the directory otherwise. The
// caller reads the version first, so that an answer that was read before a change is never used after it.
func (c *cache[K, V]) get(ctx context.Context, key K, version version) (V, error) {
	now := c.now()
	cached, ok := c.cached(now, key, version)
	if ok && within(now, cached.triedAt, c.ttl) {
		return cached.value, cached.err
	}
	loaded, err := c.fill(ctx, key, version)
	switch {
	case err == nil:
		return loaded.value, loaded.err
	case ok && ctx.Err() != nil:
		// The caller's time ran out before the directory answered. It may still answer others, so nothing is recorded.
		return cached.value, cached.err
	}
	var zero V
	return zero, err
}

// cached returns the answer for key if it is usable: fresh, or stale while the directory fails. A negative answer is not
// served stale.
func (c *cache[K, V]) cached(now time.Time, key K, version version) (answer[V], bool) {
	a, ok := c.answers.Get(key)
	usable := staleTTL
	if a.err != nil {
		usable = c.ttl
	}
	return a, ok && a.version == version && within(now, a.loadedAt, usable)
}

// knows reports whether the last answer for key, of any version, was positive and is not too old to be served stale.
func (c *cache[K, V]) knows(key K) bool {
	a, ok := c.answers.Get(key)
	return ok && a.err == nil && within(c.now(), a.loadedAt, staleTTL)
}

// within reports whether at is at most d before now. A time after now, because the clock moved back, does not count.
func within(now, at time.Time, d time.Duration) bool {
	age := now.Sub(at)
	return age >= 0 && age <= d
}

// fill waits for the running call for key and version, and starts it if there is none.
func (c *cache[K, V]) fill(ctx context.Context, key K, version version) (answer[V], error) {
	// %#v quotes strings, so different keys never share a flight.
	done := c.flights.DoChan(fmt.Sprintf("%v %#v", version, key), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		return c.refresh(ctx, key, version)
	})
	select {
	case result := <-done:
		if bug, ok := errors.AsType[*loadPanic](result.Err); ok {
			panic(bug)
		}
		if result.Err != nil {
			return answer[V]{}, result.Err
		}
		return result.Val.(answer[V]), nil
	case <-ctx.Done():
		return answer[V]{}, ctx.Err()
	}
}

// refresh asks the directory and caches the answer. If the directory fails, it returns the cached answer while that is usable.
func (c *cache[K, V]) refresh(ctx context.Context, key K, version version) (a answer[V], err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &loadPanic{value: p, stack: debug.Stack()}
		}
	}()
	begun := c.now()
	a, ok := c.cached(begun, key, version)
	switch {
	case ok && within(begun, a.triedAt, c.ttl):
		return a, nil // another flight has finished since the caller looked
	case ok && a.triedAt.After(a.loadedAt):
		// The last call failed. Serve stale to everyone who asks during this one, instead of making them wait: it may hang.
		a.triedAt = begun
		c.answers.Put(key, a, 1, "")
	}
	value, err := c.load(ctx, key)
	if err == nil || errors.Is(err, ErrUnknown) {
		a = answer[V]{value: value, err: err, loadedAt: begun, triedAt: begun, version: version}
	} else {
		now := c.now()
		if a, ok = c.cached(now, key, version); !ok {
			return answer[V]{}, err
		}
		a.triedAt = now
	}
	c.answers.Put(key, a, 1, "")
	return a, nil
}

// A loadPanic carries a panic of load from the singleflight goroutine to the callers that wait for it, who can recover from
// it. In that goroutine it would end the process.
type loadPanic struct {
	value any
	stack []byte
}

func (p *loadPanic) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }
