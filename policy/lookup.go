package policy

import (
	"context"
	"time"

	"sara/policy/flight"
)

// A cache answers one kind of lookup. Concurrent lookups of one key share one call of the directory (singleflight). The call has
// a context of its own, so that a caller that gives up does not fail the others.
type cache[K comparable, V any] struct {
	answers[K, V]
	timeout time.Duration // of one call
	load    func(context.Context, K) (V, error)
	calls   flight.Group[versioned[K], answer[V]]
}

// A versioned key is looked up once at a time: an answer that was read before a change must not be used after it.
type versioned[K comparable] struct {
	key     K
	version version
}

func newCache[K comparable, V any](now func() time.Time, ttl time.Duration, size int, timeout time.Duration,
	load func(context.Context, K) (V, error)) *cache[K, V] {
	return &cache[K, V]{answers: newAnswers[K, V](now, ttl, size), timeout: timeout, load: load}
}

// get returns the answer for key: from the cache while it is fresh and of this version, from the directory otherwise. The
// caller reads the version first, so that an answer that was read before a change is never used after it.
func (c *cache[K, V]) get(ctx context.Context, key K, version version) (V, error) {
	now := c.now()
	cached, ok := c.cached(now, key, version)
	if ok && c.isFresh(now, &cached) {
		return cached.value, cached.err
	}
	waiting := ctx
	if ok {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, cached.patience(now))
		defer cancel()
	}
	loaded, err := c.fill(waiting, key, version)
	switch {
	case err == nil:
		return loaded.value, loaded.err
	case ok && waiting.Err() != nil:
		// The directory has not answered in time. It may still answer others, so nothing is recorded.
		return cached.value, cached.err
	}
	var zero V
	return zero, err
}

// fill waits for the running call for key and version, and starts it if there is none.
func (c *cache[K, V]) fill(ctx context.Context, key K, of version) (answer[V], error) {
	return c.calls.Do(ctx, versioned[K]{key, of}, func(ctx context.Context) (answer[V], error) {
		ctx, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		begun := c.now()
		if a, ok := c.begin(begun, key, of); ok {
			return a, nil
		}
		value, err := c.load(ctx, key)
		return c.finish(begun, key, of, value, err)
	})
}
