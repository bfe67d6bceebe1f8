package main

import (
	"strings"
	"sync"
	"time"
)

// An excuse is a documented reason for errors of quiet tenants, and the times at which it applied. It is safe for concurrent use.
type excuse struct {
	covers        func(kind, failure string) bool
	before, after time.Duration // how long before it began, or after it ended, a question may have been due

	mu    sync.Mutex
	spans [][2]time.Time // from and until, or zero for now
}

// upstreamDown excuses cold questions: they may be unavailable until the circuit breaker has retried. A question that was
// due before the fault may have waited for the upstream until then.
func upstreamDown() *excuse {
	const answerTime, recovery = 25 * time.Second, 15 * time.Second
	return &excuse{before: answerTime, after: recovery,
		covers: func(kind, failure string) bool { return kind == coldHit && strings.HasPrefix(failure, "503 ") }}
}

// crowded excuses connections: no more than the memory allows can be open. The one that has waited longest makes room, so
// a client may have to connect again; if none has waited for a second, a new one is refused.
func crowded() *excuse {
	const untilRoom = 2 * time.Second
	return &excuse{after: untilRoom,
		covers: func(_, failure string) bool {
			return failure == "503 SERVICE_UNAVAILABLE" || failure == "connection closed"
		}}
}

func (e *excuse) begin() { e.beginAt(time.Now()) }
func (e *excuse) end()   { e.endAt(time.Now()) }

func (e *excuse) beginAt(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spans = append(e.spans, [2]time.Time{now})
}

func (e *excuse) endAt(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spans[len(e.spans)-1][1] = now
}

// allows reports whether the error of a question that was due at a given time is documented.
func (e *excuse) allows(kind, failure string, due time.Time) bool {
	if !e.covers(kind, failure) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, span := range e.spans {
		if due.After(span[0].Add(-e.before)) && (span[1].IsZero() || due.Before(span[1].Add(e.after))) {
			return true
		}
	}
	return false
}
