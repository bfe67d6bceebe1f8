// Package lru is a bounded in-memory cache with SIEVE eviction, an approximation of LRU whose reads take no lock.
//
// A hit hashes the key, loads two or three atomic pointers and marks the entry as visited. It allocates nothing and, once the
// entry is marked, writes nothing, so that readers on many cores do not contend even for one hot key. All writes take one
// mutex: callers put what they have just fetched or computed, which costs far more than waiting for it.
//
// Eviction is SIEVE (Zhang et al., NSDI 2024). Entries queue in order of insertion, and a hand moves from the oldest to the
// newest: it clears the mark of a visited entry and leaves it there, and evicts the first entry without a mark. New entries
// that are not read again go first, so a scan does not flush popular entries.
package lru

import (
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"
)

// Config bounds a Cache. Weights are in any unit, such as bytes.
type Config[V any] struct {
	Weight int64 // bound of all entries together
	// OwnerWeight is the bound of the entries of one owner, and so of each entry; 0: the same as Weight. An owner that
	// exceeds it loses entries of its own, by SIEVE among these.
	OwnerWeight int64
	// Replaces reports whether a value may replace the old one of its key; nil: always.
	Replaces func(old, value V) bool
}

// Cache maps keys to values up to its bounds, which hold at all times. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	config Config[V]
	seed   maphash.Seed
	index  atomic.Pointer[table[K, V]]

	mu     sync.Mutex // guards the following, the links of entries, and writes to the index
	weight int64
	queue  list[K, V] // all entries
	owners map[string]*owner[K, V]
}

// entry is a key with its value. Readers without the lock use the first four fields, of which only the mark changes.
type entry[K comparable, V any] struct {
	hash    uint64
	key     K
	value   V
	visited atomic.Bool

	weight int64
	owner  *owner[K, V]
	links  [2]link[K, V] // in the queue and in the owner's list
}

// owner is an account that entries are charged to.
type owner[K comparable, V any] struct {
	name    string
	weight  int64
	entries list[K, V]
}

// New returns an empty Cache.
func New[K comparable, V any](config Config[V]) *Cache[K, V] {
	if config.OwnerWeight == 0 || config.OwnerWeight > config.Weight {
		config.OwnerWeight = config.Weight
	}
	c := &Cache[K, V]{config: config, seed: maphash.MakeSeed(), queue: list[K, V]{at: inQueue}, owners: map[string]*owner[K, V]{}}
	c.index.Store(newTable[K, V](0))
	return c
}

// Get returns the value of a key, and marks it as visited.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	e := c.find(key)
	if e == nil {
		return value, false
	}
	if !e.visited.Load() { // otherwise every hit would take the cache line from the other cores
		e.visited.Store(true)
	}
	return e.value, true
}

// Peek returns the value of a key, and does not mark it.
func (c *Cache[K, V]) Peek(key K) (value V, ok bool) {
	if e := c.find(key); e != nil {
		return e.value, true
	}
	return value, false
}

// All returns the entries that there are when the iteration begins, the newest first. It does not mark them.
func (c *Cache[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		c.mu.Lock()
		entries := make([]*entry[K, V], 0, c.queue.len)
		for e := c.queue.newest; e != nil; e = e.links[inQueue].older {
			entries = append(entries, e)
		}
		c.mu.Unlock()
		for _, e := range entries {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

func (c *Cache[K, V]) find(key K) *entry[K, V] {
	return c.index.Load().find(maphash.Comparable(c.seed, key), key)
}

// Put sets the value of a key, with a weight of 1 and no owner, and evicts to make room for it.
func (c *Cache[K, V]) Put(key K, value V) { c.PutWeighted(key, value, 1, "") }

// PutWeighted is Put with a weight and an owner. A value heavier than an owner's bound is not kept; neither is the value that it would
// have replaced.
func (c *Cache[K, V]) PutWeighted(key K, value V, weight int64, ownerName string) {
	e := &entry[K, V]{hash: maphash.Comparable(c.seed, key), key: key, value: value, weight: weight}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.index.Load().find(e.hash, key)
	if old != nil {
		if c.config.Replaces != nil && !c.config.Replaces(old.value, value) {
			return
		}
		c.unlink(old)
		e.visited.Store(old.visited.Load())
	}
	if weight > c.config.OwnerWeight {
		if old != nil {
			c.index.Load().remove(old)
		}
		return
	}
	c.makeRoom(e, ownerName)
	c.link(e, ownerName)
	if old != nil {
		c.index.Load().replace(old, e) // readers find either, at any time
		return
	}
	c.insert(e)
}

// Len returns the number of entries.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.index.Load().live
}

// Weight returns the weight of all entries together.
func (c *Cache[K, V]) Weight() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.weight
}

// makeRoom evicts until e fits into the bounds: first of its owner, then of all.
func (c *Cache[K, V]) makeRoom(e *entry[K, V], ownerName string) {
	if o := c.owners[ownerName]; o != nil {
		for o.weight+e.weight > c.config.OwnerWeight {
			c.remove(o.entries.victim())
		}
	}
	for c.weight+e.weight > c.config.Weight {
		c.remove(c.queue.victim())
	}
}

func (c *Cache[K, V]) remove(e *entry[K, V]) {
	c.unlink(e)
	c.index.Load().remove(e)
}

// insert adds an entry to the index, which it replaces with a larger one, or one without gaps, when it is half full.
func (c *Cache[K, V]) insert(e *entry[K, V]) {
	t := c.index.Load()
	if t.isFull() {
		t = newTable[K, V](t.live + 1)
		for old := c.queue.oldest; old != nil; old = old.links[inQueue].newer {
			if old != e {
				t.insert(old)
			}
		}
	}
	t.insert(e)
	c.index.Store(t)
}

func (c *Cache[K, V]) link(e *entry[K, V], ownerName string) {
	o := c.owners[ownerName]
	if o == nil {
		o = &owner[K, V]{name: ownerName, entries: list[K, V]{at: inOwner}}
		c.owners[ownerName] = o
	}
	e.owner = o
	o.weight += e.weight
	o.entries.push(e)
	c.weight += e.weight
	c.queue.push(e)
}

func (c *Cache[K, V]) unlink(e *entry[K, V]) {
	c.queue.remove(e)
	c.weight -= e.weight
	e.owner.entries.remove(e)
	e.owner.weight -= e.weight
	if e.owner.entries.oldest == nil {
		delete(c.owners, e.owner.name)
	}
}
