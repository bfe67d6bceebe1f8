package policy

import (
	"strings"
	"sync"
	"time"

	"sara/proxy/lru"
)

const (
	// maxUnknownKeys is how many unknown keys one network may try in a minute.
	maxUnknownKeys = 30
	// maxMessages is how many requests that are charged to nothing one key may send in a minute: agents list tools once a session.
	maxMessages = 300
	// maxNetworks bounds memory. An attacker with more networks than this is out of scope.
	maxNetworks = 100_000
)

// Network returns what clients are counted by: an IPv4 address, or the /64 of an IPv6 address, which one client has as a whole.
// A text that is not an address stands for itself.
func Network(address string) string {
	a, ok := parseClient(address)
	if !ok || a.Is4() && !strings.Contains(address, ":") { // the usual form of it, which needs no copy
		return address
	}
	if a.Is6() {
		half, _ := a.Prefix(64) // fits every IPv6 address
		a = half.Addr()
	}
	return a.String()
}

// A missLimiter counts the unknown keys that each network tries, with a token bucket; another one counts the messages of each key that
// are charged to nothing.
type missLimiter struct {
	now     func() time.Time
	ceiling Ceiling
	limit   int // a minute

	mu      sync.Mutex // makes read and write of a bucket one step
	buckets *lru.Cache[string, tokenBucket]
}

func newMissLimiter(now func() time.Time, ceiling Ceiling, limit int) *missLimiter {
	return &missLimiter{now: now, ceiling: ceiling, limit: limit, buckets: lru.New[string](lru.Config[tokenBucket]{Weight: maxNetworks})}
}

// count counts an unknown key, or a message. It returns a refusal if the network, or the key, has used up its minute.
func (l *missLimiter) count(name string) *Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket, _ := l.buckets.Get(name)
	bucket, wait := bucket.take(l.now(), 1, l.limit)
	l.buckets.Put(name, bucket, 1, "")
	if wait > 0 {
		return &Refusal{Ceiling: l.ceiling, Limit: l.limit, RetryAfter: wait}
	}
	return nil
}

// isExhausted reports whether the next unknown key of a network will be refused.
func (l *missLimiter) isExhausted(network string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket, ok := l.buckets.Get(network)
	_, wait := bucket.take(l.now(), 1, l.limit)
	return ok && wait > 0
}
