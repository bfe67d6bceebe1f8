package cache

import (
	"unsafe"

	"sara/proxy/lru"
)

// accountShare is the part of the memory that one account may fill, and so may one value: a quarter.
const accountShare = 4

// valueOverhead is what a value costs besides its bytes: its place in the index and the lists of the LRU, and the headers of
// the slices in it.
const valueOverhead = 512

// memory holds the entries and answers of this process in an LRU that is bounded in bytes, in total and for each account.
// Reads take no lock.
type memory struct {
	values *lru.Cache[memoryKey, value]
}

// memoryKey keeps the keys of entries apart from those of answers.
type memoryKey struct {
	answer bool
	text   string
}

// value is an entry or an answer.
type value struct {
	entry  *Entry
	answer *Answer
}

func newMemory(bytes int64) *memory {
	return &memory{values: lru.New[memoryKey](lru.Config[value]{Weight: bytes, OwnerWeight: bytes / accountShare, Replaces: value.isReplacedBy})}
}

// isReplacedBy refuses an entry that is older than the present one: fills may finish in another order than they began.
func (v value) isReplacedBy(other value) bool {
	return v.entry == nil || !v.entry.filled.After(other.entry.filled)
}

// entry returns the entry with a key, or nil. It does not retain the key.
func (m *memory) entry(key []byte) *Entry {
	found, _ := m.values.Get(memoryKey{text: view(key)})
	return found.entry
}

// answer returns the answer with a key, or nil if there is none or one of its sources was refilled. It does not retain the
// key.
func (m *memory) answer(key []byte) *Answer {
	found, _ := m.values.Get(memoryKey{answer: true, text: view(key)})
	if found.answer == nil || m.outdated(found.answer) {
		return nil
	}
	return found.answer
}

// outdated reports whether a source was refilled since the answer was built from it. A source that was evicted is not.
func (m *memory) outdated(a *Answer) bool {
	for i := range a.sources {
		s := &a.sources[i]
		if s.key == "" {
			break
		}
		// Peek, since a hit of the answer is no use of the rows: they may be evicted before it.
		if now, ok := m.values.Peek(memoryKey{text: s.key}); ok && now.entry.id != s.id {
			return true
		}
	}
	return false
}

// view returns the bytes as a string without a copy. It is valid only until the bytes change.
func view(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }

// putEntry keeps an entry unless there is a newer one.
func (m *memory) putEntry(e *Entry, account string) {
	m.values.Put(memoryKey{text: e.key}, value{entry: e}, weigh(len(e.key)+e.rows.Size()), account)
}

func (m *memory) putAnswer(key string, a *Answer, account string) {
	m.values.Put(memoryKey{answer: true, text: key}, value{answer: a}, weigh(len(key)+a.size()), account)
}

func weigh(bytes int) int64 { return int64(bytes) + valueOverhead }
