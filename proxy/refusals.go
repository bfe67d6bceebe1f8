package proxy

import (
	"sync"
	"time"
)

// refusals remembers the properties that Search Console refuses, so that they cost neither a call nor the customer's
// budget while nobody has given the access back. The zero value is ready to use.
type refusals struct {
	mu    sync.Mutex // guards what follows
	until map[string]time.Time
}

// maxRefusals bounds the memory. Beyond it everything is forgotten, which costs a call for each.
const maxRefusals = 10_000

func (r *refusals) note(propertyID string, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil || len(r.until) >= maxRefusals {
		r.until = make(map[string]time.Time)
	}
	r.until[propertyID] = until
}

// holds reports whether the property was refused so lately that asking again makes no sense.
func (r *refusals) holds(propertyID string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Before(r.until[propertyID])
}
