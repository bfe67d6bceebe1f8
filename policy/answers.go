package policy

import (
	"errors"
	"time"

	"sara/policy/lru"
)

const (
	editionTTL           = 750 * time.Millisecond // how long the directory's edition is used without reading it again
	answerTTL            = 30 * time.Second       // how long an answer is used while the version stays the same: the store may be edited by hand
	staleTTL             = 5 * time.Minute        // how long either is used while the directory fails (stale if error)
	defaultLookupTimeout = time.Second            // see Config

	// refreshPatience is how long requests wait for a call of the directory when they have a stale answer to use instead, so
	// that a database that hangs delays no known key by more. With editionTTL it stays within the second after which a change
	// is in force.
	refreshPatience = 250 * time.Millisecond
)

// answers caches what the directory answered to one kind of lookup. Negative answers are kept apart, so that a flood of
// questions about what does not exist evicts no positive one.
type answers[K comparable, V any] struct {
	now      func() time.Time
	ttl      time.Duration
	weigh    func(V) int64 // the share of the cache's size that a value takes up; nil: 1
	positive *lru.Cache[K, answer[V]]
	negative *lru.Cache[K, answer[V]]
}

// An answer is a value, or an error that wraps ErrUnknown.
type answer[V any] struct {
	value    V
	err      error
	loadedAt time.Time // when the call that returned it began
	triedAt  time.Time // when the last call began or failed; after loadedAt only while the directory fails
	askedAt  time.Time // when a later call began, which may still run
	version  version
}

func newAnswers[K comparable, V any](now func() time.Time, ttl time.Duration, size int) answers[K, V] {
	// A slow answer does not replace that of a later call, unless the clock was set back meanwhile.
	replaces := func(old, a answer[V]) bool { return !old.loadedAt.After(a.loadedAt) || old.loadedAt.After(now()) }
	return answers[K, V]{now: now, ttl: ttl,
		positive: lru.New[K](lru.Config[answer[V]]{Weight: int64(size), Replaces: replaces}),
		negative: lru.New[K](lru.Config[answer[V]]{Weight: int64(max(1, size/2)), Replaces: replaces})}
}

// cached returns the answer for key if it is usable: fresh, or stale while the directory fails. A negative answer is not
// served stale.
func (c *answers[K, V]) cached(now time.Time, key K, version version) (answer[V], bool) {
	a, ok := c.positive.Get(key)
	if ok && a.isUsable(now, version) {
		return a, true
	}
	a, ok = c.negative.Get(key)
	return a, ok && a.version == version && within(now, a.loadedAt, c.ttl)
}

// isUsable reports whether a cached answer is positive, and may be used at least while the directory fails. One that replaced a positive
// answer, because what was asked for was removed, is not positive.
func (a *answer[V]) isUsable(now time.Time, version version) bool {
	return a.err == nil && a.version == version && within(now, a.loadedAt, staleTTL)
}

// isFresh reports whether a cached answer can be used without asking the directory.
func (c *answers[K, V]) isFresh(now time.Time, a *answer[V]) bool {
	return within(now, a.triedAt, c.ttl)
}

// knows reports whether the last answer for key, of any version, was positive and is not too old to be served stale.
func (c *answers[K, V]) knows(key K) bool {
	a, ok := c.positive.Get(key)
	return ok && a.err == nil && within(c.now(), a.loadedAt, staleTTL)
}

// begin is called before a call of the directory. It returns a fresh answer, of which another call took care meanwhile.
func (c *answers[K, V]) begin(now time.Time, key K, version version) (a answer[V], ok bool) {
	a, ok = c.cached(now, key, version)
	switch {
	case !ok:
		return a, false
	case c.isFresh(now, &a):
		return a, true
	case a.triedAt.After(a.loadedAt):
		// The last call failed. Requests that come during this one get the stale answer at once: it may hang.
		a.triedAt = now
	}
	a.askedAt = now
	c.put(key, a)
	return a, false
}

// patience returns how long a request waits for a call of the directory while it has this stale answer.
func (a *answer[V]) patience(now time.Time) time.Duration {
	switch {
	case a.triedAt.After(a.loadedAt): // the last call failed
		return 0
	case a.askedAt.IsZero():
		return refreshPatience
	}
	return max(0, refreshPatience-max(0, now.Sub(a.askedAt)))
}

// finish caches the result of a call that began at begun. If the call failed, it returns the cached answer while that is usable.
func (c *answers[K, V]) finish(begun time.Time, key K, version version, value V, err error) (answer[V], error) {
	a := answer[V]{value: value, err: err, loadedAt: begun, triedAt: begun, version: version}
	if err != nil && !errors.Is(err, ErrUnknown) {
		now := c.now()
		stale, ok := c.cached(now, key, version)
		if !ok {
			return answer[V]{}, err
		}
		a = stale
		a.triedAt = now
	}
	c.put(key, a)
	return a, nil
}

// put caches an answer, unless that of a later call has come first.
func (c *answers[K, V]) put(key K, a answer[V]) {
	if a.err == nil {
		weight := int64(1)
		if c.weigh != nil {
			weight = c.weigh(a.value)
		}
		c.positive.PutWeighted(key, a, weight, "")
		return
	}
	c.negative.Put(key, a)
	if _, ok := c.positive.Peek(key); ok {
		c.positive.Put(key, a) // it no longer exists
	}
}

// within reports whether at is at most d before now. A time after now, because the clock moved back, does not count.
func within(now, at time.Time, d time.Duration) bool {
	age := now.Sub(at)
	return age >= 0 && age <= d
}
