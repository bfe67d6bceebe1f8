package upstream

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// trip opens the circuit.
func (c *circuit) trip(now time.Time) { c.state, c.until = open, now.Add(openTime) }

// wait returns how long a call that comes now is refused, in whole seconds; 0 if it would be admitted.
func (c *circuit) wait(now time.Time) time.Duration {
	left := c.until.Sub(now)
	switch {
	case c.state == closed || left <= 0:
		return 0
	case c.state == halfOpen:
		return time.Second // the probe may end any moment
	}
	return wholeSeconds(left)
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(d.Seconds())) * time.Second
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
func (c *circuit) end(probe int, r result, now time.Time) {
	switch {
	case c.state == closed:
	case r == success:
		c.state = closed
	case c.state != halfOpen || probe != c.probe:
	case r == failure:
		c.trip(now)
	default:
		c.state, c.until = open, now // the next call is the probe
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
	case err == nil || ok && (failed.refused || failed.Kind != Unavailable && failed.Kind != Interrupted):
		return success
	case ok && failed.Kind == Unavailable || errors.Is(err, context.DeadlineExceeded):
		return failure
	default:
		return inconclusive
	}
}
