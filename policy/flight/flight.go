// Package flight lets concurrent callers share one call (singleflight), and carries a panic from the goroutine of a call, where it would
// end the process, to the callers, who can recover from it. x/sync/singleflight ends the process, and takes only text as a key.
package flight

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
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
// a caller who leaves does not fail the others; f bounds its time. If f panics, so does each caller who waits, with a *Panic.
func (g *Group[K, V]) Do(ctx context.Context, key K, f func(context.Context) (V, error)) (value V, err error) {
	if err := ctx.Err(); err != nil {
		return value, err
	}
	c := g.join(ctx, key, f)
	select {
	case <-c.done:
		Repanic(c.err)
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
	defer Recover(&c.err)
	c.value, c.err = f(ctx)
}

// A Panic is a panic of another goroutine.
type Panic struct {
	Value any
	stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("%v\n%s", p.Value, p.stack) }

// Recover makes a panic an error, which is a *Panic. It must be deferred.
func Recover(err *error) {
	switch p := recover().(type) {
	case nil:
	case *Panic: // by Repanic
		*err = p
	default:
		*err = &Panic{Value: p, stack: debug.Stack()}
	}
}

// Repanic panics again if err is a *Panic.
func Repanic(err error) {
	if p, ok := errors.AsType[*Panic](err); ok {
		panic(p)
	}
}
