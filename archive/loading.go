package archive

import (
	"context"

	"sara/policy/flight"
	"sara/policy/lru"
)

// A loadingCache is a read-through cache. Concurrent loads of a key are coalesced (singleflight).
type loadingCache[K comparable, V any] struct {
	values *lru.Cache[K, V]
	weigh  func(V) int64
	fresh  func(V) bool                           // whether a cached value can be used
	load   func(context.Context, K) (V, K, error) // returns the key to cache the value under: which may be newer than the requested one
	loads  flight.Group[K, V]
}

func newLoadingCache[K comparable, V any](weight int64, weigh func(V) int64, fresh func(V) bool,
	load func(context.Context, K) (V, K, error)) *loadingCache[K, V] {
	return &loadingCache[K, V]{values: lru.New[K](lru.Config[V]{Weight: weight}), weigh: weigh, fresh: fresh, load: load}
}

// get returns the value of a key from the cache, or loads it. A load continues when its callers leave, and its failure is shared by all.
func (c *loadingCache[K, V]) get(ctx context.Context, key K) (V, error) {
	if value, ok := c.cached(key); ok {
		return value, nil
	}
	return c.loads.Do(ctx, key, func(ctx context.Context) (V, error) {
		if value, ok := c.cached(key); ok { // another load has finished since the caller looked
			return value, nil
		}
		value, loaded, err := c.load(ctx, key)
		if err == nil {
			c.values.PutWeighted(loaded, value, c.weigh(value), "")
		}
		return value, err
	})
}

// cached returns the value of a key that the cache has, if it can be used.
func (c *loadingCache[K, V]) cached(key K) (value V, ok bool) {
	value, ok = c.values.Get(key)
	return value, ok && c.fresh(value)
}
