package proxy

import (
	"slices"
	"time"

	"sara/proxy/cache"
	"sara/translate"
)

// A material is what an answer is built from: a plan, the rows of the upstream for each of its fetches, by index, and what the answer has to
// say about them besides.
type material struct {
	plan
	found   []cache.Found  // without an Entry: the upstream has no part
	unclear translate.Date // the first of the days that no series at hand explains; 0: as planned
	age     string         // a note about when the rows were read; empty: none
}

// withoutUpstream returns the material of an answer without rows of the upstream.
func (p *plan) withoutUpstream() material {
	return material{plan: *p, found: make([]cache.Found, len(p.fetches))}
}

// firstEntry returns the upstream's rows of the first fetch; nil: there are none.
func (m *material) firstEntry() *cache.Entry {
	if len(m.found) == 0 {
		return nil
	}
	return m.found[0].Entry
}

// appendEntries appends the entries that hold the upstream's rows.
func (m *material) appendEntries(entries []*cache.Entry) []*cache.Entry {
	for _, f := range m.found {
		if f.Entry != nil {
			entries = append(entries, f.Entry)
		}
	}
	return entries
}

// isFromMemory reports whether everything was found in the memory of the cache.
func (m *material) isFromMemory() bool {
	return m.archive.none() && !slices.ContainsFunc(m.found, func(f cache.Found) bool { return f.Entry != nil && f.Status != cache.HitMemory })
}

// work returns how much an answer is built from.
func (m *material) work() (w rowWork) {
	for i, f := range m.found {
		if f.Entry != nil {
			w.add(f.Entry.Rows())
		}
		if m.archive.parts[i] != nil {
			w.add(m.archive.parts[i])
		}
	}
	return w
}

// countWidened returns how many entries save a call because the query of another request was widened.
func (m *material) countWidened(requestHash uint64) (n int) {
	for _, f := range m.found {
		if f.Entry != nil && f.Entry.RequestHash() != requestHash && (f.Status == cache.HitMemory || f.Status == cache.HitShared) {
			n++
		}
	}
	return n
}

// areCopies reports whether there is a copy for each fetch from the upstream, and when the oldest was filled.
func (m *material) areCopies() (all bool, oldest time.Time) {
	for i, f := range m.found {
		switch {
		case m.fetches[i].Upstream == nil:
		case f.Entry == nil:
			return false, oldest
		case oldest.IsZero() || f.Entry.Filled().Before(oldest):
			oldest = f.Entry.Filled()
		}
	}
	return true, oldest
}
