package upstream

import (
	"maps"
	"sync"
	"time"
)

// maxExpiring bounds an expiringMap. When that many entries are alive, all are dropped: each costs one call or one write.
const maxExpiring = 10_000

// An expiringMap is a bounded map whose entries expire. The zero value is ready to use; it is safe for concurrent use.
type expiringMap[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]expiring[V] // guarded by mu
}

type expiring[V any] struct {
	value V
	until time.Time
}

// get returns the entry of a key and when it expires; ok is false if there is none.
func (m *expiringMap[K, V]) get(key K, now time.Time) (value V, until time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	return e.value, e.until, now.Before(e.until)
}

func (m *expiringMap[K, V]) put(key K, value V, until, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.entries) >= maxExpiring {
		maps.DeleteFunc(m.entries, func(_ K, e expiring[V]) bool { return !now.Before(e.until) })
	}
	if m.entries == nil || len(m.entries) >= maxExpiring {
		m.entries = make(map[K]expiring[V])
	}
	m.entries[key] = expiring[V]{value, until}
}
