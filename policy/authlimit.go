package policy

import (
	"context"
	"sync"
	"time"

	"sara/proxy/lru"
)

const (
	// maxUnknownKeys is how many unknown keys one address may try in a minute.
	maxUnknownKeys = 30
	// maxAddresses bounds memory. An attacker with more addresses than this is out of scope.
	maxAddresses = 100_000
)

// An authLimiter throttles key guessing, with a token bucket per client address. A key that is not cached counts as an
// attempt and takes a token before the directory is asked; the token is put back if the key turns out to exist. So the
// number of wrong keys that reach the directory never exceeds the limit. When the bucket is empty but earlier attempts are
// still pending, a new one waits for them instead of being refused: after a restart, most keys behind an address that many
// clients share are valid.
type authLimiter struct {
	now func() time.Time

	mu       sync.Mutex // guards attempts, and the values in it
	attempts *lru.Cache[string, *addressAttempts]
}

// addressAttempts is the state of one address.
type addressAttempts struct {
	bucket   tokenBucket
	pending  int           // attempts that hold a token and have not finished
	finished chan struct{} // closed, and replaced, when one finishes
}

func newAuthLimiter(now func() time.Time) *authLimiter {
	return &authLimiter{now: now, attempts: lru.New[string](lru.Config[*addressAttempts]{Weight: maxAddresses})}
}

// begin starts an attempt from an address. Unless the attempt is refused, the caller must call finish and pass whether the key
// is unknown.
func (l *authLimiter) begin(ctx context.Context, address string) (finish func(unknown bool), refusal *Refusal) {
	for {
		a, wait, next := l.take(address)
		switch {
		case wait == 0:
			return func(unknown bool) { l.finish(a, unknown) }, nil
		case next == nil:
			return nil, &Refusal{AddressMinute, maxUnknownKeys, wait}
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, &Refusal{AddressMinute, maxUnknownKeys, wait}
		}
	}
}

// take takes a token from the bucket of an address. If there is none, it returns the time until the next one, and a channel
// that is closed when a pending attempt, which may put its token back, finishes: nil if none is pending.
func (l *authLimiter) take(address string) (a *addressAttempts, wait time.Duration, next <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.attempts.Get(address)
	if !ok {
		a = &addressAttempts{finished: make(chan struct{})}
		l.attempts.Put(address, a, 1, "")
	}
	if a.bucket, wait = a.bucket.take(l.now(), 1, maxUnknownKeys); wait == 0 {
		a.pending++
	} else if a.pending > 0 {
		next = a.finished
	}
	return a, wait, next
}

func (l *authLimiter) finish(a *addressAttempts, unknown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.pending--
	if !unknown {
		a.bucket = a.bucket.put(1, maxUnknownKeys)
	}
	close(a.finished)
	a.finished = make(chan struct{})
}
