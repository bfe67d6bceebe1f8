package bucket

import (
	"log/slog"
	"sync"
	"time"
)

const (
	failuresToOpen = 3
	// probePause is the time between probes while the breaker is open: the time after which requests see a recovered store.
	probePause = 2 * time.Second
)

// A breaker is the circuit breaker of a store. It is safe for concurrent use.
type breaker struct {
	log *slog.Logger

	mu       sync.Mutex // guards the following fields
	failures int        // consecutive; the breaker is open from failuresToOpen on
	last     error      // of the failures
	probeAt  time.Time  // while open: the next operation after it is the probe
	success  time.Time  // the last
}

// allow reports whether an operation may run. Its end must be reported.
func (b *breaker) allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < failuresToOpen {
		return true
	}
	now := time.Now()
	if now.Before(b.probeAt) {
		return false
	}
	b.probeAt = now.Add(probePause)
	return true
}

func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures >= failuresToOpen {
		b.log.Info("the object store of the archive works again")
	}
	b.failures, b.last, b.success = 0, nil, time.Now()
}

func (b *breaker) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = err
	b.probeAt = time.Now().Add(probePause)
	if b.failures++; b.failures == failuresToOpen {
		b.log.Error("the object store of the archive fails: answers omit stored history", slog.Any("error", err))
	}
}

// inconclusive ends an operation that shows nothing about reads: a failed write, or one whose caller went away.
func (b *breaker) inconclusive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures >= failuresToOpen {
		b.probeAt = time.Now() // it may have been the probe
	}
}

// reason returns the last failure while the breaker is open, otherwise "".
func (b *breaker) reason() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < failuresToOpen {
		return ""
	}
	return b.last.Error()
}

func (b *breaker) sinceSuccess() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.success)
}
