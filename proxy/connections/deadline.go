package connections

import (
	"errors"
	"os"
	"sync"
	"time"
)

// A lazyDeadline is a deadline that moves often and expires seldom. Setting a connection's deadline costs a third of a read, so
// only an earlier deadline is set at once. A later one is set when the one in force expires. It is safe for concurrent use.
type lazyDeadline struct {
	set func(time.Time) error // the connection's own

	mu      sync.Mutex // guards the following fields
	wanted  time.Time  // zero: none
	inForce time.Time  // on the connection; never later than wanted; zero: none
}

// moveTo moves the deadline. A zero t removes it.
func (d *lazyDeadline) moveTo(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	if t.IsZero() || !d.inForce.IsZero() && !t.Before(d.inForce) {
		return nil
	}
	d.inForce = t
	return d.set(t)
}

// extends reports whether a read or write that failed with err must be retried, because its deadline was moved meanwhile. It
// sets the wanted deadline.
func (d *lazyDeadline) extends(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inForce.Equal(d.wanted) {
		return false
	}
	d.inForce = d.wanted
	return d.set(d.wanted) == nil
}
