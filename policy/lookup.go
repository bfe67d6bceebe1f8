package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sync/singleflight"
)

// A cache answers one kind of lookup. Concurrent lookups of one key share one call of the directory (singleflight). The call has
// a context of its own, so that a caller that gives up does not fail the others.
type cache[K comparable, V any] struct {
	answers[K, V]
	load    func(context.Context, K) (V, error)
	flights singleflight.Group
}

func newCache[K comparable, V any](now func() time.Time, ttl time.Duration, size int,
	load func(context.Context, K) (V, error)) *cache[K, V] {
	return &cache[K, V]{answers: newAnswers[K, V](now, ttl, size), load: load}
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
	if a, ok := c.begin(begun, key, version); ok {
		return a, nil
	}
	value, err := c.load(ctx, key)
	return c.finish(begun, key, version, value, err)
}

// A loadPanic carries a panic of load from the singleflight goroutine to the callers that wait for it, who can recover from
// it. In that goroutine it would end the process.
type loadPanic struct {
	value any
	stack []byte
}

func (p *loadPanic) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }
