package lru

import "sync/atomic"

// table is a hash table with linear probing, which one goroutine writes while any number read. A slot, once taken, is never
// empty again in the same table, so a reader that walks from a key's home slot to the first empty one passes every entry
// that was there when it began.
type table[K comparable, V any] struct {
	slots []atomic.Pointer[entry[K, V]] // a power of two
	gap   *entry[K, V]                  // tombstone of a removed entry
	live  int                           // entries
	taken int                           // entries and gaps
}

const minSlots = 64

// newTable returns one that is a quarter full, at most, with n entries.
func newTable[K comparable, V any](n int) *table[K, V] {
	size := minSlots
	for size < 4*n {
		size *= 2
	}
	return &table[K, V]{slots: make([]atomic.Pointer[entry[K, V]], size), gap: new(entry[K, V])}
}

// isFull reports whether half of the slots are taken, beyond which probing takes long.
func (t *table[K, V]) isFull() bool { return t.taken >= len(t.slots)/2 }

func (t *table[K, V]) find(hash uint64, key K) *entry[K, V] {
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := t.slots[i].Load()
		if e == nil {
			return nil
		}
		if e.hash == hash && e.key == key && e != t.gap {
			return e
		}
	}
}

// insert adds an entry whose key is not there.
func (t *table[K, V]) insert(e *entry[K, V]) {
	mask := uint64(len(t.slots) - 1)
	for i := e.hash & mask; ; i = (i + 1) & mask {
		switch t.slots[i].Load() {
		case nil:
			t.taken++
		case t.gap:
		default:
			continue
		}
		t.slots[i].Store(e)
		t.live++
		return
	}
}

func (t *table[K, V]) replace(old, e *entry[K, V]) {
	mask := uint64(len(t.slots) - 1)
	i := old.hash & mask
	for t.slots[i].Load() != old {
		i = (i + 1) & mask
	}
	t.slots[i].Store(e)
}

func (t *table[K, V]) remove(e *entry[K, V]) {
	t.replace(e, t.gap)
	t.live--
}
