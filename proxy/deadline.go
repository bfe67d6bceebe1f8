package proxy

import (
	"context"
	"sync"
	"time"
)

// A deadline is the context of one request: it ends at a fixed time, or with the request. A request that memory answers
// never looks at its context, so the timer and the standard library's context are made lazily. It is safe for concurrent use.
type deadline struct {
	at time.Time

	mu     sync.Mutex // guards the following fields
	inner  context.Context
	cancel context.CancelFunc // of inner
	ended  bool
}

var _ context.Context = (*deadline)(nil)

// Deadline implements context.Context.
func (d *deadline) Deadline() (at time.Time, ok bool) { return d.at, true }

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} { return d.context().Done() }

// Value implements context.Context. It passes every key to the inner context: that is how the standard library recognizes a
// context of its own, to which it attaches children without starting a goroutine. It does so after Done, so that there is no value before.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	inner := d.inner
	d.mu.Unlock()
	if inner == nil {
		return nil
	}
	return inner.Value(key)
}

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

// end cancels the context when the request is over.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}

// context returns the inner context, and makes it on first use.
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
