package proxy

import (
	"context"
	"sync"
	"time"
)

// A deadline is the context of one request: it ends at a time, or with the request. Most requests are answered from memory
// and never look at their context, so that the timer and what else a context of the standard library takes are made for
// those that do. It is safe for concurrent use.
type deadline struct {
	at time.Time

	mu     sync.Mutex // guards what follows
	inner  context.Context
	cancel context.CancelFunc // of inner
	ended  bool
}

var _ context.Context = (*deadline)(nil)

// Deadline implements context.Context.
func (d *deadline) Deadline() (at time.Time, ok bool) { return d.at, true }

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} { return d.context().Done() }

// Value implements context.Context. It hands out the inner context's own values: by one of them the standard library knows
// a context that children can be attached to, for which it would take a goroutine otherwise.
func (d *deadline) Value(key any) any { return d.context().Value(key) }

// Err implements context.Context.
func (d *deadline) Err() error {
	d.mu.Lock()
	inner, ended := d.inner, d.ended
	d.mu.Unlock()
	if inner == nil && !ended && time.Now().Before(d.at) {
		return nil
	}
	return d.context().Err()
}

// end cancels the context: the request is over.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}

// context returns the inner context, and makes it if nobody has asked for it before.
func (d *deadline) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.inner != nil:
	case d.ended:
		d.inner, d.cancel = context.WithCancel(context.Background())
		d.cancel()
	default:
		d.inner, d.cancel = context.WithDeadline(context.Background(), d.at)
	}
	return d.inner
}
