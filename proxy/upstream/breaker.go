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
	// failuresToOpen is how many consecutive calls must fail, retries included, to open the circuit breaker of a host.
	failuresToOpen = 5
	// openTime is how long a breaker stays open. With the duration of the probe, users see a recovered host within 15 s.
	openTime = 10 * time.Second
)

// state is the state of a circuit breaker.
type state uint8

const (
	closed   state = iota // calls pass
	open                  // calls are refused; the first one after the open time becomes the probe
	halfOpen              // half-open: the probe is in flight, other calls are refused
)

// A breaker is a circuit breaker. It is safe for concurrent use.
type breaker struct {
	host      string // as error messages name it
	threshold int    // consecutive failures that open it
	openTime  time.Duration
	now       func() time.Time
	onChange  func(isOpen bool) // called with mu held when it opens or closes
	onRefuse  func()            // called for each call that is refused

	mu       sync.Mutex
	state    state     // guarded by mu
	failures int       // consecutive, while closed; guarded by mu
	until    time.Time // end of the open time; guarded by mu
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
	if err := b.refusal(); err != nil {
		b.onRefuse()
		return nil, err
	}
	if b.state == closed {
		return b.done, nil
	}
	b.state = halfOpen
	return b.doneProbe, nil
}

// check returns the error that allow would, without admitting a call.
func (b *breaker) check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal()
}

// refusal is the error for a call that comes now; nil if it is admitted. b.mu must be held.
func (b *breaker) refusal() error {
	left := b.until.Sub(b.now())
	if b.state == closed || b.state == open && left <= 0 {
		return nil
	}
	// At least a second: while the probe is in flight, the open time is over.
	wait := time.Duration(max(math.Ceil(left.Seconds()), 1)) * time.Second
	return &Error{
		Kind:       Unavailable,
		Message:    fmt.Sprintf("%s failed repeatedly: its circuit breaker is open for another %v", b.host, wait),
		RetryAfter: wait,
	}
}

// done ends a call that was admitted while the breaker was closed. If it has opened since, the result is too old to count.
func (b *breaker) done(r result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.state != closed || r == inconclusive:
	case r == success:
		b.failures = 0
	default:
		if b.failures++; b.failures == b.threshold {
			b.onChange(true)
			b.state = open
		}
		b.until = b.now().Add(b.openTime)
	}
}

// doneProbe ends the probe.
func (b *breaker) doneProbe(r result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r {
	case success:
		b.onChange(false)
		b.state, b.failures = closed, 0
	case failure:
		b.state, b.until = open, b.now().Add(b.openTime)
	default:
		b.state = open // the open time is over, so the next call is the probe
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
