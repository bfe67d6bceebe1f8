package cache

import (
	"container/list"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/maypok86/otter/v2"
)

// An account may fill this part of the memory, and so may one value.
const accountPart = 4

// What an item costs besides its bytes: the item itself, its places in the map, in the eviction policy and in its account's
// list, and the headers of the slices in it.
const itemOverhead = 512

// memory holds entries and answers up to a bound of bytes, and each account's up to a part of it. The bound holds but for
// the one value that is being put.
//
// Reads take no lock of it. Puts go one at a time.
type memory struct {
	items items
	limit int64 // of an account, and of a value

	mu     sync.Mutex // held by who puts
	shares shares
}

// items is what is used of an otter.Cache. The field has this type because a field of a generic type has every package that
// imports the field's struct compile all methods of the generic type again.
type items interface {
	GetIfPresent(memoryKey) (*item, bool)
	GetEntryQuietly(memoryKey) (otter.Entry[memoryKey, *item], bool)
	Set(memoryKey, *item) (*item, bool)
	Invalidate(memoryKey) (*item, bool)
	CleanUp()
	WeightedSize() uint64
	EstimatedSize() int
}

// memoryKey keeps the keys of entries from those of answers.
type memoryKey struct {
	answer bool
	text   string
}

// item is one value: an entry or an answer.
type item struct {
	key     memoryKey
	entry   *Entry
	answer  *Answer
	account string
	weight  uint32
	place   *list.Element // in the share of the account
}

func newMemory(bytes int64) (*memory, error) {
	m := &memory{limit: min(bytes/accountPart, math.MaxUint32), shares: shares{accounts: map[string]*share{}}}
	var err error
	m.items, err = otter.New(&otter.Options[memoryKey, *item]{
		MaximumWeight:    uint64(bytes),
		Weigher:          func(_ memoryKey, v *item) uint32 { return v.weight },
		OnAtomicDeletion: func(e otter.DeletionEvent[memoryKey, *item]) { m.shares.remove(e.Value) },
		// Upkeep runs on the goroutine that reads or writes, so that none outlives Close.
		Executor: func(task func()) { task() },
	})
	if err != nil {
		return nil, fmt.Errorf("build a memory of %d bytes: %w", bytes, err)
	}
	return m, nil
}

// entry returns the entry with a key, or nil. It does not keep the key.
func (m *memory) entry(key []byte) *Entry { return m.entryOf(view(key)) }

func (m *memory) entryOf(key string) *Entry {
	if found, ok := m.items.GetIfPresent(memoryKey{text: key}); ok {
		return found.entry
	}
	return nil
}

// answer returns the answer with a key, or nil, unless a source of it was refilled. It does not keep the key.
func (m *memory) answer(key []byte) *Answer {
	found, ok := m.items.GetIfPresent(memoryKey{answer: true, text: view(key)})
	if !ok {
		return nil
	}
	for i := range found.answer.sources {
		s := &found.answer.sources[i]
		if s.key == "" {
			break
		}
		// Quietly: whoever wants the answer does not want the rows.
		if now, ok := m.items.GetEntryQuietly(memoryKey{text: s.key}); ok && now.Value.entry.id != s.id {
			return nil
		}
	}
	return found.answer
}

// view is the bytes as a string, for the length of a lookup.
func view(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }

// putEntry keeps an entry, unless there is a newer one.
func (m *memory) putEntry(e *Entry, account string) {
	m.put(&item{
		key: memoryKey{text: e.key}, entry: e, account: account,
		weight: weigh(int64(len(e.key)) + int64(e.rows.Size())),
	})
}

func (m *memory) putAnswer(key string, a *Answer, account string) {
	m.put(&item{
		key: memoryKey{answer: true, text: key}, answer: a, account: account,
		weight: weigh(int64(len(key)) + a.size()),
	})
}

func weigh(bytes int64) uint32 { return uint32(min(bytes+itemOverhead, math.MaxUint32)) }

func (m *memory) put(v *item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var old *item
	if present, ok := m.items.GetEntryQuietly(v.key); ok {
		old = present.Value
	}
	if old != nil && old.entry != nil && old.entry.filled.After(v.entry.filled) {
		return
	}
	if int64(v.weight) > m.limit {
		m.items.Invalidate(v.key) // what is there is older
		return
	}
	for {
		oldest := m.shares.surplus(v, old, m.limit)
		if oldest == nil {
			break
		}
		m.items.Invalidate(oldest.key)
	}
	m.shares.add(v)
	m.items.Set(v.key, v)
	m.items.CleanUp() // so that the bound holds when this returns
}

// shares count what each account has in memory. Its mutex is held for moments, by deletions, too, which come while locks of
// the memory are held: nothing here may call the memory.
type shares struct {
	mu       sync.Mutex
	accounts map[string]*share
}

type share struct {
	bytes int64
	items list.List // of *item, the oldest first
}

// surplus returns the oldest item that has to go before v, which replaces old, fits into its account's share, or nil.
func (s *shares) surplus(v, old *item, limit int64) *item {
	s.mu.Lock()
	defer s.mu.Unlock()
	account := s.accounts[v.account]
	if account == nil {
		return nil
	}
	bytes := account.bytes + int64(v.weight)
	if old != nil && old.place != nil && old.account == v.account {
		bytes -= int64(old.weight)
	}
	if bytes <= limit {
		return nil
	}
	for place := account.items.Front(); place != nil; place = place.Next() {
		if oldest := place.Value.(*item); oldest != old {
			return oldest
		}
	}
	return nil
}

func (s *shares) add(v *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	account := s.accounts[v.account]
	if account == nil {
		account = new(share)
		s.accounts[v.account] = account
	}
	account.bytes += int64(v.weight)
	v.place = account.items.PushBack(v)
}

func (s *shares) remove(v *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.place == nil {
		return
	}
	account := s.accounts[v.account]
	account.items.Remove(v.place)
	v.place = nil
	account.bytes -= int64(v.weight)
	if account.items.Len() == 0 {
		delete(s.accounts, v.account)
	}
}
