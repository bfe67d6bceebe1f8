package policy

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"
)

const (
	// maxCensus bounds the keys of a census, and so its memory: 2 MB. With more keys there is none.
	maxCensus = 100_000

	// minCensus is how many unknown keys have to be looked up before a census is taken, and censusRows is how many hashes it may read for
	// each of them. Reading a hash costs less than a look-up, so a census costs no more than a few times what the look-ups before it did.
	minCensus  = 64
	censusRows = 4

	// censusTimeout bounds the query of a census, for which look-ups wait: no known key waits longer for a directory that hangs.
	censusTimeout = refreshPatience

	// NewKeyDelay is how long a gate may consider a new key of another process unknown. That process shows the key only after this delay,
	// so that it cannot be used earlier. A census is used for this long after each check that the directory has not changed. While there
	// are requests, the next check starts after censusAhead.
	NewKeyDelay = 10 * time.Millisecond
	censusAhead = NewKeyDelay / 2
)

// A census holds the beginnings of the hashes of all keys in the directory. A key that is not in it is unknown, so guesses need no
// look-up. Like a cached answer, it holds for requests of its version until it is too old. Unlike one, it also covers keys that have never
// been used. Those have to work as soon as they are shown, so a census is used only while it is checked.
type census struct {
	version   version
	loadedAt  time.Time // when its query began
	checkedAt time.Time // when a query began that found the directory's edition unchanged; zero: none yet
	hashes    map[uint64]struct{}
	ahead     atomic.Bool // its next check has been asked for
}

func newCensus(v version, begun time.Time, hashes []Hash) *census {
	c := &census{version: v, loadedAt: begun, hashes: make(map[uint64]struct{}, len(hashes))}
	for i := range hashes {
		c.hashes[beginning(&hashes[i])] = struct{}{}
	}
	return c
}

// beginning returns the first bytes of a hash. An unknown key that shares them with a known one is looked up.
func beginning(hash *Hash) uint64 { return binary.NativeEndian.Uint64(hash[:]) }

// lacks reports whether a key is not among those of a version. A nil census lacks none.
func (c *census) lacks(now time.Time, hash *Hash, v version) bool {
	if c == nil || c.version != v || !within(now, c.loadedAt, answerTTL) {
		return false
	}
	_, ok := c.hashes[beginning(hash)]
	return !ok
}

// answers reports whether a census can answer a request at once: the key is unknown.
func (c *census) answers(now time.Time, q *keyQuestion) bool {
	return c != nil && within(now, c.checkedAt, NewKeyDelay-1) && c.lacks(now, &q.hash, q.version)
}

// checkAhead makes sure that the next check of a census comes in time: the query for a key that it lacks is one, which no request waits for.
func (f *keyFinder) checkAhead(ctx context.Context, now time.Time, c *census, q keyQuestion, network string) {
	if !within(now, c.checkedAt, censusAhead) && !c.ahead.Load() && c.ahead.CompareAndSwap(false, true) {
		_, _ = f.enqueue(ctx, q, network)
	}
}

// withoutUnknown returns the hashes of a batch that have to be looked up: without those that the census lacks, unless the directory has
// changed since.
func (f *keyFinder) withoutUnknown(ctx context.Context, begun time.Time, batch []*keyLookup, hashes []Hash) ([]Hash, error) {
	c := f.census.Load()
	if c == nil {
		return hashes, nil
	}
	var left []Hash
	for _, l := range batch {
		if !c.lacks(begun, &l.hash, l.version) {
			left = append(left, l.hash)
		}
	}
	if len(left) == len(hashes) || within(begun, c.checkedAt, censusAhead) {
		return left, nil
	}
	edition, err := f.directory.Edition(ctx)
	if err != nil || edition != c.version.edition {
		return hashes, err
	}
	f.census.Store(&census{version: c.version, loadedAt: c.loadedAt, checkedAt: begun, hashes: c.hashes})
	return left, nil
}

// A censusPlan decides when a census is taken. The zero value is ready to use.
type censusPlan struct {
	unknown int // keys that were looked up and not found since the last census
	due     int // how many have to be, at least, until the next one
}

func (p *censusPlan) isDue() bool { return p.unknown >= max(minCensus, p.due) }

// takeCensus takes a census of a version that was read before. Without one, which is when there are too many keys or the directory
// fails, the next is due after twice as many look-ups.
func (f *keyFinder) takeCensus(ctx context.Context, begun time.Time, v version) {
	limit := min(f.plan.unknown*censusRows, maxCensus)
	f.plan.due = 2 * f.plan.unknown
	ctx, cancel := context.WithTimeout(ctx, censusTimeout)
	defer cancel()
	hashes, err := f.directory.KeyHashes(ctx, limit+1)
	if err != nil || len(hashes) > limit {
		return // look-ups answer
	}
	f.census.Store(newCensus(v, begun, hashes))
	f.plan = censusPlan{due: len(hashes) / censusRows}
}
