package upstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// failuresInARow is how many calls in a row must fail, retries and all, for a host to be left alone.
	failuresInARow = 5
	// rest is how long a host is left alone. With it and the time of one call, users see a cured host within 15 s.
	rest = 10 * time.Second
)

// A breaker leaves a host alone that has failed repeatedly. After a rest it lets one call through, a probe, whose success
// ends it and whose failure makes the host rest once more. It is safe for concurrent use.
type breaker struct {
	host    string // as a message names it
	limit   int    // failures in a row
	now     func() time.Time
	open    prometheus.Gauge   // one more while this host is being left alone
	refused prometheus.Counter // calls

	mu       sync.Mutex
	failures int       // in a row; guarded by mu
	until    time.Time // end of the rest, once the limit is reached; guarded by mu
	probing  bool      // guarded by mu
}

func newBreaker(host string, limit int, now func() time.Time, m breakerMetrics) *breaker {
	return &breaker{host: host, limit: limit, now: now, open: m.open, refused: m.refused}
}

// A permit is leave for one call, whose end it must be told.
type permit struct {
	breaker *breaker
	probe   bool
}

// acquire returns a permit, or the *Error to answer with when the host is being left alone.
func (b *breaker) acquire() (permit, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refusal(); err != nil {
		b.refused.Inc()
		return permit{}, err
	}
	b.probing = b.isOpen()
	return permit{b, b.probing}, nil
}

// check returns the error that acquire would, and takes no permit.
func (b *breaker) check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal()
}

// isOpen reports whether the host is being left alone, but for the probe. b.mu must be held.
func (b *breaker) isOpen() bool { return b.failures >= b.limit }

// refusal is in whole seconds, and at least one, because a probe is under way when the rest is over. b.mu must be held.
func (b *breaker) refusal() error {
	left := b.until.Sub(b.now())
	if !b.isOpen() || left <= 0 && !b.probing {
		return nil
	}
	wait := time.Duration(max(math.Ceil(left.Seconds()), 1)) * time.Second
	return &Error{
		Kind:       Unavailable,
		Message:    fmt.Sprintf("%s has failed repeatedly and is left alone for %v", b.host, wait),
		RetryAfter: wait,
	}
}

// record tells how the call ended. What began before the host was left alone says nothing of how it is now.
func (p permit) record(v verdict) {
	b := p.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isOpen() && !p.probe {
		return
	}
	if p.probe {
		b.probing = false
	}
	switch v {
	case answered:
		if b.isOpen() {
			b.open.Dec()
		}
		b.failures = 0
	case failed:
		b.failures++
		if b.failures == b.limit {
			b.open.Inc()
		}
		b.until = b.now().Add(rest)
	}
}

// A verdict is what the end of a call says of the host.
type verdict uint8

const (
	silent   verdict = iota // nothing: it was not asked, or the caller left
	answered                // it is there, whatever it said
	failed
)

// judge takes the error of a request, an *Error or a context's.
func judge(err error) verdict {
	failure, ok := errors.AsType[*Error](err)
	switch {
	case err == nil || ok && failure.Kind != Unavailable && failure.Kind != Interrupted:
		return answered
	case ok && failure.Kind == Unavailable || errors.Is(err, context.DeadlineExceeded):
		return failed
	default:
		return silent
	}
}
