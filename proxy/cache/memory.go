package cache

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"sara/policy/lru"
	"sara/translate"
)

// Entry is one copy of upstream rows. It is immutable.
type Entry struct {
	key         string          // of the query that filled it
	rows        *translate.Rows // of a copy from Redis, perhaps only the first
	filled      time.Time
	requestHash uint64
	id          uint64 // of the fill, the same in every replica

	refillFailed atomic.Bool // the last refill failed for all waiters: the next request waits for another refill

	reading sync.Once // of known
	known   translate.KnownDays
}

// Rows returns the rows, which must not be changed: at least as many of the first rows as the request needed, see Request.FirstRows.
func (e *Entry) Rows() *translate.Rows { return e.rows }

// size returns the bytes of memory that the entry holds.
func (e *Entry) size() int { return len(e.key) + e.rows.Size() }

// Filled returns when the upstream was asked, not when it had answered: the rows may be as old as that, however slow the call was.
func (e *Entry) Filled() time.Time { return e.filled }

// RequestHash returns the Request.RequestHash of the fill. It differs from a request's own when another request filled the
// rows.
func (e *Entry) RequestHash() uint64 { return e.requestHash }

// appendKey appends the cache key of a query for a property: the property, the site and the query's canonical form. The
// lengths make it injective. Since the property is part of it, tenants never share rows.
func appendKey(dst []byte, propertyID string, q *translate.Query) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(propertyID)))
	dst = append(dst, propertyID...)
	dst = binary.AppendUvarint(dst, uint64(len(q.Site)))
	dst = append(dst, q.Site...)
	return q.AppendKey(dst)
}

// accountShare limits the memory that one account, or one value, may fill: to a quarter.
const accountShare = 4

// valueOverhead is the memory of a value in addition to its bytes: its place in the index and the LRU lists, and the
// headers of its slices.
const valueOverhead = 512

// memory holds the entries and answers of this process in an LRU that is bounded in bytes, in total and for each account.
// Reads take no lock.
type memory struct {
	values *lru.Cache[memoryKey, value]
}

// memoryKey distinguishes the keys of entries, answers and rankings.
type memoryKey struct {
	kind kind
	text string
}

type kind uint8

const (
	ofEntry kind = iota
	ofAnswer
	ofRanking
)

// value is an entry, an answer or a ranking.
type value struct {
	entry   *Entry
	answer  *Answer
	ranking *ranking
}

func newMemory(bytes int64) *memory {
	return &memory{values: lru.New[memoryKey](lru.Config[value]{Weight: bytes, OwnerWeight: bytes / accountShare, Replaces: value.isReplacedBy})}
}

// isReplacedBy refuses an entry that is older than the present one, since fills may finish out of order, and one that
// has fewer of the same rows.
func (v value) isReplacedBy(other value) bool {
	if v.entry == nil {
		return true
	}
	fewer := v.entry.id == other.entry.id && v.entry.rows.HasMoreThan(other.entry.rows)
	return !fewer && !v.entry.filled.After(other.entry.filled)
}

// entry returns the entry with a key, or nil. It does not retain the key.
func (m *memory) entry(key []byte) *Entry {
	found, _ := m.values.Get(memoryKey{text: view(key)})
	return found.entry
}

// answer returns the answer with a key, or nil if there is none or one of its sources was refilled. It does not retain the
// key.
func (m *memory) answer(key []byte) *Answer {
	found, _ := m.values.Get(memoryKey{kind: ofAnswer, text: view(key)})
	if found.answer == nil || m.outdated(found.answer) {
		return nil
	}
	return found.answer
}

// has reports whether this answer is the one stored under its key.
func (m *memory) has(a *Answer) bool {
	now, _ := m.values.Peek(memoryKey{kind: ofAnswer, text: a.key})
	return now.answer == a
}

// outdated reports whether a source was refilled since the answer was built from it, or a copy of the daily series contradicts the
// answer. Evicted entries do not count.
func (m *memory) outdated(a *Answer) bool {
	for i := range a.sources {
		s := &a.sources[i]
		if s.key == "" {
			break
		}
		// Peek, because a hit of the answer does not use the rows: they may be evicted before the answer.
		if now, ok := m.values.Peek(memoryKey{text: s.key}); ok && now.entry.id != s.id {
			return true
		}
	}
	if said := &a.mention; said.key != "" {
		if now, ok := m.values.Peek(memoryKey{text: said.key}); ok && now.entry.KnownDays(said.asked) != said.known {
			return true
		}
	}
	return false
}

// view returns the bytes as a string without a copy. It is valid only until the bytes change.
func view(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }

// bytesOf returns the bytes of a string without a copy. They must not be changed.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// inherit marks an entry as failed if memory has fewer of the same rows and they are marked: their last refill failed.
func (m *memory) inherit(e *Entry) {
	if now, ok := m.values.Peek(memoryKey{text: e.key}); ok && now.entry.id == e.id && now.entry.refillFailed.Load() {
		e.refillFailed.Store(true)
	}
}

// putEntry keeps an entry unless a newer one exists.
func (m *memory) putEntry(e *Entry, account string) {
	m.values.PutWeighted(memoryKey{text: e.key}, value{entry: e}, weigh(e.size()), account)
}

func (m *memory) putAnswer(key string, a *Answer, account string) {
	m.values.PutWeighted(memoryKey{kind: ofAnswer, text: key}, value{answer: a}, weigh(len(key)+a.size()), account)
}

func weigh(bytes int) int64 { return int64(bytes) + valueOverhead }
