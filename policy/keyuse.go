package policy

import (
	"maps"
	"sync"
	"time"
)

// maxKeyUses bounds the keys whose use is noted between two calls of TakeKeyUses. The use of any further key is noted later.
const maxKeyUses = 100_000

// keyUses notes in which hour each key was last used. A request costs a read lock and a look-up; only the first one of a key in an
// hour takes the write lock.
type keyUses struct {
	mu   sync.RWMutex
	hour int64            // since 1970
	seen map[string]int64 // hour of the last use, by key id; hours before this one until they are taken
	last map[string]int64 // taken already, in this hour
}

// note notes the use of a key.
func (u *keyUses) note(id string, now time.Time) {
	hour := now.Unix() / 3600
	u.mu.RLock()
	known := u.hour == hour && (u.seen[id] == hour || u.last[id] == hour)
	u.mu.RUnlock()
	if known {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.hour != hour {
		u.hour, u.last = hour, nil
	}
	if u.seen == nil {
		u.seen = make(map[string]int64)
	}
	if len(u.seen) < maxKeyUses {
		u.seen[id] = hour
	}
}

// take returns the uses that were noted since the last call, and forgets them.
func (u *keyUses) take() map[string]int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.seen
	if u.last == nil {
		u.last = make(map[string]int64, len(taken))
	}
	if len(u.last)+len(taken) > maxKeyUses {
		clear(u.last) // keys in use are noted once more
	}
	maps.Copy(u.last, taken)
	u.seen = nil
	return taken
}

// TakeKeyUses returns the hours in which keys were last used, by key id, as far as they were not taken before: each key once an
// hour. Hours begin on the hour in UTC. The map belongs to the caller.
func (g *Gate) TakeKeyUses() map[string]time.Time {
	taken := g.uses.take()
	uses := make(map[string]time.Time, len(taken))
	for id, hour := range taken {
		uses[id] = time.Unix(hour*3600, 0).UTC()
	}
	return uses
}
