package archive

import (
	"context"
	"errors"
	"sync"

	"sara/policy/lru"
)

// A loadingCache is a read-through cache. Concurrent loads of a key are coalesced (singleflight).
type loadingCache[K comparable, V any] struct {
	values *lru.Cache[K, V]
	weigh  func(V) int64
	fresh  func(V) bool                           // whether a cached value can be used
	load   func(context.Context, K) (V, K, error) // returns the key to cache the value under: which may be newer than the requested one

	mu    sync.Mutex
	loads map[K]*loading[V]
}

// loading is a load in progress.
type loading[V any] struct {
	done     chan struct{} // closed when the following are set
	value    V
	err      error
	canceled bool // the context of the load had ended, which says nothing about the key
}

func newLoadingCache[K comparable, V any](weight int64, weigh func(V) int64, fresh func(V) bool,
	load func(context.Context, K) (V, K, error)) *loadingCache[K, V] {
	return &loadingCache[K, V]{values: lru.New[K](lru.Config[V]{Weight: weight}), weigh: weigh, fresh: fresh, load: load, loads: map[K]*loading[V]{}}
}

// get returns the value of a key from the cache, or loads it. The first caller loads on its own context; if that context ends the load,
// one of the waiters loads again. Any other failure, including a timeout of the store, is shared by all.
func (c *loadingCache[K, V]) get(ctx context.Context, key K) (value V, err error) {
	for {
		if value, ok := c.values.Get(key); ok && c.fresh(value) {
			return value, nil
		}
		l, leader := c.join(key)
		if leader {
			c.run(ctx, key, l)
			return l.value, l.err
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return value, ctx.Err()
		}
		if !l.canceled || ctx.Err() != nil {
			return l.value, l.err
		}
	}
}

// join returns the load of a key, and whether the caller must run it.
func (c *loadingCache[K, V]) join(key K) (l *loading[V], leader bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l = c.loads[key]; l != nil {
		return l, false
	}
	l = &loading[V]{done: make(chan struct{})}
	if value, ok := c.values.Get(key); ok && c.fresh(value) { // a load has finished since the caller checked
		l.value = value
		close(l.done)
		return l, false
	}
	c.loads[key] = l
	return l, true
}

func (c *loadingCache[K, V]) run(ctx context.Context, key K, l *loading[V]) {
	l.err = errors.New("the load panicked") // the waiters get it if the load panics
	defer func() {
		c.mu.Lock()
		delete(c.loads, key)
		c.mu.Unlock()
		close(l.done)
	}()
	var loaded K
	if l.value, loaded, l.err = c.load(ctx, key); l.err == nil {
		c.values.PutWeighted(loaded, l.value, c.weigh(l.value), "")
	}
	l.canceled = l.err != nil && ctx.Err() != nil
}
