// Package flight lets concurrent callers share one call (singleflight). A panic of the call reaches the callers, who can recover from it:
// x/sync/singleflight ends the process, and takes only text as a key.
package flight

import (
	"context"
	"sync"

	"sara/policy/panics"
)

// A Group makes one call at a time for a key. The zero value is ready to use. It is safe for concurrent use.
type Group[K comparable, V any] struct {
	mu    sync.Mutex
	calls map[K]*call[V] // that are running; guarded by mu
}

type call[V any] struct {
	done  chan struct{} // closed when the following fields are set
	value V
	err   error
}

// Do waits for the running call for a key, and starts one of f if there is none. The call has a goroutine and a context of its own, so that
// a caller who leaves does not fail the others; f bounds its time. If f panics, so does each caller who waits, with a *panics.Error.
func (g *Group[K, V]) Do(ctx context.Context, key K, f func(context.Context) (V, error)) (value V, err error) {
	if err := ctx.Err(); err != nil {
		return value, err
	}
	c := g.join(ctx, key, f)
	select {
	case <-c.done:
		panics.Repanic(c.err)
		return c.value, c.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

func (g *Group[K, V]) join(ctx context.Context, key K, f func(context.Context) (V, error)) *call[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[key]; c != nil {
		return c
	}
	c := &call[V]{done: make(chan struct{})}
	if g.calls == nil {
		g.calls = make(map[K]*call[V])
	}
	g.calls[key] = c
	go func() {
		c.run(context.WithoutCancel(ctx), f)
		g.mu.Lock()
		delete(g.calls, key)
		g.mu.Unlock()
		close(c.done)
	}()
	return c
}

func (c *call[V]) run(ctx context.Context, f func(context.Context) (V, error)) {
	defer panics.Recover(&c.err)
	c.value, c.err = f(ctx)
}
