package policy

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"
)

const (
	// maxUnknownKeys is how many keys that are unknown, or not for it, one network may try in a minute.
	maxUnknownKeys = 30
	// maxMessages is how many requests that are charged to nothing one key may send in a minute: agents list tools once a session.
	maxMessages = 300
	// maxNetworks bounds memory: this many networks, at least, are counted at a time. An attacker with more of them is out of scope.
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
// are charged to nothing. It keeps the buckets that were used in the last minute, since all others are full. They are in two maps,
// which take turns: once the first is a minute old, or has maxNetworks, the second is emptied and becomes the first. Nothing in the
// maps is a pointer, so the garbage collector does not walk them.
type missLimiter struct {
	now     func() time.Time
	ceiling Ceiling
	limit   int // a minute
	seed    maphash.Seed

	mu      sync.Mutex // guards the following fields, and makes read and write of a bucket one step
	recent  map[bucketID]tokenBucket
	former  map[bucketID]tokenBucket // those that are not in recent
	begunAt time.Time                // when recent was empty
}

// A bucketID is a hash of a name with a secret seed. The chance that two of maxNetworks names share one is 1 in 10^9.
type bucketID uint64

func newMissLimiter(now func() time.Time, ceiling Ceiling, limit int) *missLimiter {
	return &missLimiter{now: now, ceiling: ceiling, limit: limit, seed: maphash.MakeSeed(),
		recent: map[bucketID]tokenBucket{}, former: map[bucketID]tokenBucket{}}
}

// count counts n unknown keys, or messages: all or none. It returns a refusal if the network, or the key, has used up its minute.
func (l *missLimiter) count(name string, n int) *Refusal {
	id := l.id(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Sub(l.begunAt) > time.Minute || len(l.recent) >= maxNetworks {
		l.recent, l.former, l.begunAt = l.former, l.recent, now
		clear(l.recent)
	}
	bucket, wait := l.bucket(id).take(now, n, l.limit)
	l.recent[id] = bucket
	if wait > 0 {
		return &Refusal{Ceiling: l.ceiling, Limit: l.limit, RetryAfter: wait}
	}
	return nil
}

// isExhausted reports whether the next unknown key of a network will be refused.
func (l *missLimiter) isExhausted(network string) bool {
	id := l.id(network)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, wait := l.bucket(id).take(l.now(), 1, l.limit)
	return wait > 0
}

func (l *missLimiter) id(name string) bucketID { return bucketID(maphash.String(l.seed, name)) }

// bucket returns a bucket, which is full if none is kept.
func (l *missLimiter) bucket(id bucketID) tokenBucket {
	if b, ok := l.recent[id]; ok {
		return b
	}
	return l.former[id]
}
