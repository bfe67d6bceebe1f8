// Package breaker is a circuit breaker: once calls of a dependency have failed in a row, it admits only one call now and then.
package breaker

import (
	"sync"
	"time"
)

// A Breaker is closed until as many calls in a row have failed as the threshold. While it is open, it admits one call in each pause, as a
// probe, and the success of any call closes it. Set the exported fields before its first use. It is safe for concurrent use.
type Breaker struct {
	Threshold int           // at least 1
	Pause     time.Duration // between probes
	Now       func() time.Time
	OnChange  func(failure error) // gets the failure that opens it, and nil when it closes; must not use the Breaker

	mu       sync.Mutex // guards the following fields
	failures int        // in a row
	failure  error      // the last one; nil: closed
	probeAt  time.Time  // while open: the first call from then on is the next probe
	probing  bool       // a call may be the probe that the next one waits for
}

// Admit returns 0 if a call may begin, whose end must then be reported, and otherwise how long to wait. A clock that is set back
// does not lengthen the wait.
func (b *Breaker) Admit() (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failure == nil {
		return 0
	}
	now := b.Now()
	if wait = b.probeAt.Sub(now); wait > 0 && wait <= b.Pause {
		return wait
	}
	b.probeAt, b.probing = now.Add(b.Pause), true
	return 0
}

// Succeeded ends a call that the dependency has answered, if only with a refusal.
func (b *Breaker) Succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
	if b.failure != nil {
		b.failure, b.probing = nil, false
		b.OnChange(nil)
	}
}

// Failed ends a call that failed. While the breaker is open, that does not keep it open longer: the call may have begun before.
func (b *Breaker) Failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures++; b.failures < b.Threshold {
		return
	}
	opens := b.failure == nil
	b.failure, b.probing = err, false
	if opens {
		b.probeAt = b.Now().Add(b.Pause)
		b.OnChange(err)
	}
}

// Inconclusive ends a call that shows nothing about the dependency, such as one whose caller left. If it may have been the probe, the next
// call is another one.
func (b *Breaker) Inconclusive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probing {
		b.probeAt, b.probing = time.Time{}, false
	}
}

// Failure returns the last failure while the breaker is open, otherwise nil.
func (b *Breaker) Failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}
