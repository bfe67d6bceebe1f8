package policy

import (
	"sync"
	"time"

	"sara/proxy/lru"
)

const (
	// maxUnknownKeys is how many unknown keys one network may try in a minute.
	maxUnknownKeys = 30
	// maxNetworks bounds memory. An attacker with more networks than this is out of scope.
	maxNetworks = 100_000
)

// Network returns what clients are counted by: an IPv4 address, or the /64 of an IPv6 address, which one client has as a whole.
// A text that is not an address stands for itself.
func Network(address string) string {
	a, ok := parseClient(address)
	if !ok {
		return address
	}
	if a.Is6() {
		half, _ := a.Prefix(64) // fits every IPv6 address
		a = half.Addr()
	}
	return a.String()
}

// A missLimiter counts the unknown keys that each network tries, with a token bucket.
type missLimiter struct {
	now func() time.Time

	mu      sync.Mutex // makes read and write of a bucket one step
	buckets *lru.Cache[string, tokenBucket]
}

func newMissLimiter(now func() time.Time) *missLimiter {
	return &missLimiter{now: now, buckets: lru.New[string](lru.Config[tokenBucket]{Weight: maxNetworks})}
}

// count counts an unknown key. It returns a refusal if the network has used up its minute.
func (l *missLimiter) count(network string) *Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket, _ := l.buckets.Get(network)
	bucket, wait := bucket.take(l.now(), 1, maxUnknownKeys)
	l.buckets.Put(network, bucket, 1, "")
	if wait > 0 {
		return &Refusal{Ceiling: AddressMinute, Limit: maxUnknownKeys, RetryAfter: wait}
	}
	return nil
}

// isExhausted reports whether the next unknown key of a network will be refused.
func (l *missLimiter) isExhausted(network string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket, ok := l.buckets.Get(network)
	_, wait := bucket.take(l.now(), 1, maxUnknownKeys)
	return ok && wait > 0
}
