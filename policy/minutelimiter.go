package policy

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// maxUnknownKeys is how many keys that are unknown, or not for it, one network may try in a minute.
	maxUnknownKeys = 30
	// maxMessages is how many requests that are charged to nothing one key may send in a minute: agents list tools once a session.
	maxMessages = 300
	// maxRecentNames bounds memory: this many networks or keys, at least, are counted at a time. An attacker with more networks is out of scope.
	maxRecentNames = 100_000
)

// A minuteLimiter limits how often something happens in a minute, with a token bucket for each name: one counts the unknown keys that a
// network tries, another the messages of a key that are charged to nothing. It keeps the buckets that were used in the last minute, since
// all others are full. They are in two maps, which take turns: once the first is a minute old, or has maxRecentNames, the second is emptied
// and becomes the first. Nothing in the maps is a pointer, so the garbage collector does not walk them.
type minuteLimiter struct {
	now     func() time.Time
	ceiling Ceiling
	limit   int // a minute
	seed    maphash.Seed

	mu      sync.Mutex // guards the following fields, and makes read and write of a bucket one step
	recent  map[bucketID]tokenBucket
	former  map[bucketID]tokenBucket // those that are not in recent
	begunAt time.Time                // when recent was empty
}

// A bucketID is a hash of a name with a secret seed. The chance that two of maxRecentNames names share one is 1 in 10^9.
type bucketID uint64

func newMinuteLimiter(now func() time.Time, ceiling Ceiling, limit int) *minuteLimiter {
	return &minuteLimiter{now: now, ceiling: ceiling, limit: limit, seed: maphash.MakeSeed(),
		recent: map[bucketID]tokenBucket{}, former: map[bucketID]tokenBucket{}}
}

// count counts n times of a name: all or none. It returns a refusal if they do not fit into its minute.
func (l *minuteLimiter) count(name string, n int) *Refusal {
	id := l.id(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Sub(l.begunAt) > time.Minute || len(l.recent) >= maxRecentNames {
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

// isExhausted reports whether the next count of a name will be refused.
func (l *minuteLimiter) isExhausted(name string) bool {
	id := l.id(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, wait := l.bucket(id).take(l.now(), 1, l.limit)
	return wait > 0
}

func (l *minuteLimiter) id(name string) bucketID { return bucketID(maphash.String(l.seed, name)) }

// bucket returns a bucket, which is full if none is kept.
func (l *minuteLimiter) bucket(id bucketID) tokenBucket {
	if b, ok := l.recent[id]; ok {
		return b
	}
	return l.former[id]
}
