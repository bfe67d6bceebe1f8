package lru

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// checkLinks fails the test unless the index, the lists and the weights agree with each other and with the bounds.
func checkLinks[V any](t *testing.T, c *Cache[int, V]) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	index, weight, n := c.index.Load(), int64(0), 0
	owners := map[string]int64{}
	for e := c.queue.oldest; e != nil; e = e.links[inQueue].newer {
		n++
		weight += e.weight
		owners[e.owner.name] += e.weight
		if index.find(e.hash, e.key) != e {
			t.Errorf("key %d is in the queue and not in the index", e.key)
		}
	}
	if n != index.live || n != c.queue.len || weight != c.weight || weight > c.config.Weight {
		t.Errorf("%d entries of weight %d are counted as %d and %d, weight %d of %d", n, weight, index.live, c.queue.len, c.weight, c.config.Weight)
	}
	if len(owners) != len(c.owners) {
		t.Errorf("%d owners are counted as %d", len(owners), len(c.owners))
	}
	for name, o := range c.owners {
		if o.weight != owners[name] || o.weight > c.config.OwnerWeight {
			t.Errorf("%s has weight %d, counted as %d, of %d", name, owners[name], o.weight, c.config.OwnerWeight)
		}
	}
}

// modelEntry is an entry as the model knows it.
type modelEntry struct {
	key, value int
	weight     int64
	owner      string
	visited    bool
}

// model is the cache as slices: entries by insertion, and the key at each hand.
type model struct {
	config  Config[int]
	entries []*modelEntry
	hands   map[string]*modelEntry // by owner; of the whole queue under queueHand
}

const queueHand = "\x00queue"

func (m *model) in(list string) (entries []*modelEntry) {
	for _, e := range m.entries {
		if list == queueHand || e.owner == list {
			entries = append(entries, e)
		}
	}
	return entries
}

func (m *model) weight(list string) (sum int64) {
	for _, e := range m.in(list) {
		sum += e.weight
	}
	return sum
}

func (m *model) find(key int) *modelEntry {
	if i := slices.IndexFunc(m.entries, func(e *modelEntry) bool { return e.key == key }); i >= 0 {
		return m.entries[i]
	}
	return nil
}

func (m *model) remove(e *modelEntry) {
	for _, list := range []string{queueHand, e.owner} {
		if entries := m.in(list); m.hands[list] == e {
			m.hands[list] = nil
			if i := slices.Index(entries, e); i+1 < len(entries) {
				m.hands[list] = entries[i+1]
			}
		}
	}
	m.entries = slices.DeleteFunc(m.entries, func(other *modelEntry) bool { return other == e })
	if len(m.in(e.owner)) == 0 {
		delete(m.hands, e.owner)
	}
}

func (m *model) evict(list string) {
	entries := m.in(list)
	i := max(0, slices.Index(entries, m.hands[list]))
	for ; entries[i].visited; i = (i + 1) % len(entries) {
		entries[i].visited = false
	}
	m.hands[list] = entries[i]
	m.remove(entries[i])
}

func (m *model) put(e *modelEntry) {
	if old := m.find(e.key); old != nil {
		if !m.config.Replaces(old.value, e.value) {
			return
		}
		e.visited = old.visited
		m.remove(old)
	}
	if e.weight > m.config.OwnerWeight {
		return
	}
	for m.weight(e.owner)+e.weight > m.config.OwnerWeight {
		m.evict(e.owner)
	}
	for m.weight(queueHand)+e.weight > m.config.Weight {
		m.evict(queueHand)
	}
	m.entries = append(m.entries, e)
}

func TestCacheEqualsModel(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		config := Config[int]{Weight: 300, OwnerWeight: 100 + random.Int64N(300), Replaces: func(old, value int) bool { return value%10 >= old%10 }}
		c := New[int](config)
		config.OwnerWeight = min(config.OwnerWeight, config.Weight)
		m := &model{config: config, hands: map[string]*modelEntry{}}
		for step := range 2000 {
			key := random.IntN(60)
			switch random.IntN(10) {
			case 0, 1, 2, 3:
				e := &modelEntry{key: key, value: step, weight: random.Int64N(25), owner: fmt.Sprint(random.IntN(3))}
				if random.IntN(50) == 0 {
					e.weight = config.OwnerWeight + random.Int64N(2)
				}
				c.PutWeighted(key, e.value, e.weight, e.owner)
				m.put(e)
			default:
				value, ok := c.Get(key)
				e := m.find(key)
				if ok != (e != nil) || ok && value != e.value {
					t.Fatalf("seed %d, step %d: key %d is %d, %v, want %+v", seed, step, key, value, ok, e)
				}
				if ok {
					e.visited = true
				}
			}
			if c.Len() != len(m.entries) || c.Weight() != m.weight(queueHand) {
				t.Fatalf("seed %d, step %d: %d entries of weight %d, want %d of %d", seed, step, c.Len(), c.Weight(), len(m.entries), m.weight(queueHand))
			}
			for _, e := range m.entries {
				if value, ok := c.Peek(e.key); !ok || value != e.value {
					t.Fatalf("seed %d, step %d: key %d is %d, %v, want %d", seed, step, e.key, value, ok, e.value)
				}
			}
			if random.IntN(20) == 0 {
				checkAll(t, c, m, random.IntN(60))
			}
			if random.IntN(50) == 0 { // a victim is also found when all entries are marked
				for _, e := range m.entries {
					c.Get(e.key)
					e.visited = true
				}
			}
		}
		checkLinks(t, c)
	}
}

// checkAll compares the first entries of the iteration with those of the model, the newest first.
func checkAll(t *testing.T, c *Cache[int, int], m *model, most int) {
	t.Helper()
	var got, want []int
	for key, value := range c.All() {
		if len(got) == 2*most {
			break
		}
		got = append(got, key, value)
	}
	for _, e := range slices.Backward(m.entries) {
		if len(want) < 2*most {
			want = append(want, e.key, e.value)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the keys and values are %v, want %v", got, want)
	}
}

// The bounds hold at any time, and a key that is only ever replaced is always found.
func TestCacheUnderConcurrentUse(t *testing.T) {
	const weight, pinned = 4000, -1
	c := New[int](Config[int]{Weight: weight, OwnerWeight: weight / 2})
	c.PutWeighted(pinned, pinned, 1, "pinned")
	var workers sync.WaitGroup
	for seed := range uint64(4) {
		workers.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			for range 5000 {
				key := random.IntN(1000)
				switch random.IntN(8) {
				case 0, 1, 2, 3:
					c.PutWeighted(key, key, random.Int64N(100), fmt.Sprint(random.IntN(5)))
					c.PutWeighted(pinned, pinned, 1, "pinned")
				default:
					if value, ok := c.Get(key); ok && value != key {
						t.Errorf("key %d has the value %d", key, value)
					}
				}
				if _, ok := c.Get(pinned); !ok {
					t.Error("a key was missed while it was replaced")
				}
				if held := c.Weight(); held > weight {
					t.Errorf("weight %d, bound %d", held, weight)
				}
			}
		})
	}
	workers.Wait()
	checkLinks(t, c)
}

func TestOwnerLosesItsOwnOldestFirst(t *testing.T) {
	c := New[int](Config[int]{Weight: 100, OwnerWeight: 10})
	c.PutWeighted(-1, 0, 1, "quiet")
	for key := range 13 {
		c.PutWeighted(key, key, 1, "loud")
	}
	for key := range 13 {
		if _, ok := c.Peek(key); ok != (key >= 3) {
			t.Errorf("key %d is kept: %v", key, ok)
		}
	}
	if _, ok := c.Peek(-1); !ok {
		t.Error("one owner took the room of another")
	}
	checkLinks(t, c)
}

func TestTooHeavyValueReplacesTheOldAndIsNotKept(t *testing.T) {
	c := New[int](Config[int]{Weight: 100, OwnerWeight: 10})
	c.Put(1, 1)
	c.PutWeighted(1, 2, 11, "")
	if value, ok := c.Get(1); ok || c.Len() != 0 {
		t.Errorf("kept %d", value)
	}
	checkLinks(t, c)
}

// A table that is full of gaps is replaced by one without, so that a cache in use for long is as fast as a new one.
func TestIndexDropsGaps(t *testing.T) {
	c := New[int](Config[int]{Weight: 10})
	for key := range 10_000 {
		c.Put(key, key)
	}
	if slots := len(c.index.Load().slots); slots != minSlots {
		t.Errorf("ten entries have %d slots, want %d", slots, minSlots)
	}
	checkLinks(t, c)
}

func TestHitsAllocateNothing(t *testing.T) {
	type key struct {
		answer bool
		text   string
	}
	c := New[key](Config[*int]{Weight: 10})
	text := []byte("a key")
	c.Put(key{true, "a key"}, new(int))
	if n := testing.AllocsPerRun(1000, func() {
		if _, ok := c.Get(key{true, string(text)}); !ok {
			t.Error("the key is gone")
		}
	}); n != 0 {
		t.Errorf("a hit allocates %v times", n)
	}
}
