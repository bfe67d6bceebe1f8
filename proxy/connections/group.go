package connections

import (
	"cmp"
	"slices"
)

// A group is a bounded set of connections.
type group struct {
	limit   int
	members map[*Conn]struct{}

	// A look at all members for each new connection would let a flood of them take up the processor.
	candidates []candidate // members that had waited longest by the last look, the longest last
	keyed      bool        // the candidates have carried valid keys, because no member without one had waited long enough
	more       bool        // others had waited long enough too: those with keys, or those beyond maxCandidates
	lookAgain  int64       // before then no other member has waited long enough, unless there are more
}

// A candidate can be evicted as long as it waits since the same instant: then it has carried no request meanwhile, and no key.
type candidate struct {
	connection *Conn
	since      int64
}

// maxCandidates bounds what a group remembers of a look at its members.
const maxCandidates = 256

func (g *group) isFull() bool { return len(g.members) >= g.limit }

func (g *group) add(c *Conn) {
	if g.members == nil {
		g.members = map[*Conn]struct{}{}
	}
	g.members[c] = struct{}{}
}

// longestWaiting marks the member that has waited longest as evicted, and returns it; nil if none has waited for evictAfter.
// Members that have carried a valid key come last.
func (g *group) longestWaiting(now int64) *Conn {
	for {
		due := now >= g.lookAgain
		if len(g.candidates) == 0 && !due && !g.more {
			return nil
		}
		// If it is due, a member without a key may have waited long enough by now.
		if (len(g.candidates) == 0 || g.keyed && due) && !g.look(now) {
			return nil
		}
		last := len(g.candidates) - 1
		longest := g.candidates[last]
		g.candidates = g.candidates[:last]
		if g.evict(longest) {
			return longest.connection
		}
	}
}

// evict marks a candidate as evicted, unless it is one no longer.
func (g *group) evict(c candidate) bool {
	_, open := g.members[c.connection]
	return open && c.connection.waiting.CompareAndSwap(c.since, evicted)
}

// look finds the candidates. It reports whether there are any.
func (g *group) look(now int64) bool {
	g.candidates = g.candidates[:0]
	g.lookAgain = now + int64(evictAfter)
	var keyed []candidate
	for c := range g.members {
		since := c.waiting.Load()
		switch {
		case since <= 0:
		case since+int64(evictAfter) > now:
			g.lookAgain = min(g.lookAgain, since+int64(evictAfter))
		case c.keyed.Load():
			keyed = append(keyed, candidate{c, since})
		default:
			g.candidates = append(g.candidates, candidate{c, since})
		}
	}
	g.keyed = len(g.candidates) == 0
	g.more = !g.keyed && len(keyed) > 0
	if g.keyed {
		g.candidates = keyed
	}
	slices.SortFunc(g.candidates, func(a, b candidate) int { return cmp.Compare(b.since, a.since) })
	if extra := len(g.candidates) - maxCandidates; extra > 0 {
		g.candidates = slices.Clone(g.candidates[extra:])
		g.more = true
	}
	return len(g.candidates) > 0
}
