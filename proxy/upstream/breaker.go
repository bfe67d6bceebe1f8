package upstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

const (
	// failuresToOpen is how many consecutive calls must fail, retries included, to open a circuit.
	failuresToOpen = 5
	// openTime is how long a circuit stays open, and probeTime how long it waits for its probe. Users see a recovered host after
	// their sum, 15 s, at the latest.
	openTime  = 10 * time.Second
	probeTime = 5 * time.Second
)

// state is the state of a circuit breaker.
type state uint8

const (
	closed   state = iota // calls pass
	open                  // calls are refused; the first one after the open time becomes the probe
	halfOpen              // half-open: the probe is in flight, other calls are refused
)

// A circuit is the state machine of a circuit breaker, without what opens it and without a lock. The zero value is closed.
type circuit struct {
	state state
	until time.Time // end of the open time or, if half-open, of the wait for the probe
	probe int       // the number of the last probe, from 1
}

// trip opens the circuit for d.
func (c *circuit) trip(now time.Time, d time.Duration) { c.state, c.until = open, now.Add(d) }

// wait returns how long a call that comes now is refused, in whole seconds; 0 if it would be admitted.
func (c *circuit) wait(now time.Time) time.Duration {
	left := c.until.Sub(now)
	switch {
	case c.state == closed || left <= 0:
		return 0
	case c.state == halfOpen:
		return time.Second // the probe may end any moment
	}
	return time.Duration(math.Ceil(left.Seconds())) * time.Second
}

// admit admits a call, and returns its number if it is the probe, else 0. A probe that has not ended after lease is no longer
// waited for: the next call becomes the probe.
func (c *circuit) admit(now time.Time, lease time.Duration) (probe int) {
	if c.state == closed {
		return 0
	}
	c.state, c.until = halfOpen, now.Add(lease)
	c.probe++
	return c.probe
}

// end ends a probe. The success of any probe closes the circuit; other results count only for the current probe.
// reopen is how long the circuit stays open after a failure.
func (c *circuit) end(probe int, r result, now time.Time, reopen time.Duration) {
	switch {
	case c.state == closed:
	case r == success:
		c.state = closed
	case c.state != halfOpen || probe != c.probe:
	case r == failure:
		c.trip(now, reopen)
	default:
		c.trip(now, 0) // the next call is the probe
	}
}

// openError is the error of a call that the circuit of a host does not admit.
func openError(host string, wait time.Duration) *Error {
	return &Error{
		Kind:       Unavailable,
		Message:    fmt.Sprintf("%s failed repeatedly: its circuit breaker is open for another %v", host, wait),
		RetryAfter: wait,
	}
}

// A breaker is the circuit breaker of one host, which opens after consecutive failures. It is safe for concurrent use.
type breaker struct {
	host      string // as error messages name it
	threshold int    // consecutive failures that open it
	openTime  time.Duration
	now       func() time.Time
	onChange  func(isOpen bool) // called with mu held when it opens or closes
	onRefuse  func()            // called for each refused call

	mu       sync.Mutex
	circuit  circuit // guarded by mu
	failures int     // consecutive, while closed; guarded by mu
}

// newBreaker returns the breaker for a host.
func newBreaker(host string, threshold int, now func() time.Time, m breakerMetrics) *breaker {
	onChange := func(isOpen bool) {
		if isOpen {
			m.open.Inc()
		} else {
			m.open.Dec()
		}
	}
	return &breaker{host: host, threshold: threshold, openTime: openTime, now: now, onChange: onChange, onRefuse: m.refused.Inc}
}

// allow admits a call, whose result must be reported to done, or returns the *Error to answer with.
func (b *breaker) allow() (done func(result), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if wait := b.circuit.wait(now); wait > 0 {
		b.onRefuse()
		return nil, openError(b.host, wait)
	}
	probe := b.circuit.admit(now, probeTime)
	return func(r result) { b.done(probe, r) }, nil
}

// done ends a call; probe is 0 for one that was admitted while the breaker was closed. If it has opened since, the result of
// such a call is too old to count.
func (b *breaker) done(probe int, r result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.circuit.state
	switch {
	case probe > 0:
		b.circuit.end(probe, r, b.now(), b.openTime)
	case before != closed || r == inconclusive:
	case r == success:
		b.failures = 0
	default:
		if b.failures++; b.failures >= b.threshold {
			b.circuit.trip(b.now(), b.openTime)
		}
	}
	if after := b.circuit.state; (before == closed) != (after == closed) {
		b.failures = 0
		b.onChange(after != closed)
	}
}

// A result is what the end of a call shows about the host.
type result uint8

const (
	inconclusive result = iota // nothing was sent, or the caller left
	success                    // the host answered, even if it refused
	failure
)

// resultOf reads the error of a request, an *Error or a context's.
func resultOf(err error) result {
	failed, ok := errors.AsType[*Error](err)
	switch {
	case err == nil || ok && failed.Kind != Unavailable && failed.Kind != Interrupted:
		return success
	case ok && failed.Kind == Unavailable || errors.Is(err, context.DeadlineExceeded):
		return failure
	default:
		return inconclusive
	}
}
