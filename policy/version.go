package policy

import (
	"context"
	"time"
)

// A version identifies a state of the directory; cached answers of another version are not used. It changes at once with a
// change by this process or a published invalidation, and within a second with any other change.
type version struct{ knownChanges, edition uint64 }

func (g *Gate) version(ctx context.Context) (now version, err error) {
	now.knownChanges = g.knownChanges()
	now.edition, err = g.editions.get(ctx, struct{}{}, version{knownChanges: now.knownChanges})
	return now, err
}

// knownChanges counts the changes that are known without asking the directory.
func (g *Gate) knownChanges() uint64 { return g.config.Directory.Generation() + g.invalidations.Load() }

// cachedVersion returns the version and its edition as far as they are known without asking the directory. ok is false if what is cached
// must not be used without asking it.
func (g *Gate) cachedVersion(now time.Time) (v version, edition answer[uint64], ok bool) {
	v.knownChanges = g.knownChanges()
	edition, ok = g.editions.cached(now, struct{}{}, v)
	v.edition = edition.value
	return v, edition, ok
}

// readEdition asks the directory for its edition, past the cache.
func (g *Gate) readEdition(ctx context.Context) (edition uint64, readAt time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, g.config.LookupTimeout)
	defer cancel()
	readAt = g.config.Now()
	edition, err = g.config.Directory.Edition(ctx)
	return edition, readAt, err
}

// knowsEdition reports whether cached answers may be used now if the directory does not answer.
func (g *Gate) knowsEdition() bool {
	_, _, ok := g.cachedVersion(g.config.Now())
	return ok
}

var _ Listener = (*Gate)(nil)

// Invalidate implements Listener.
func (g *Gate) Invalidate() { g.invalidations.Add(1) }

// Revalidate implements Listener. While the directory does not answer, what is cached stays usable.
func (g *Gate) Revalidate() {
	if _, edition, ok := g.cachedVersion(g.config.Now()); ok {
		edition.triedAt, edition.askedAt = time.Time{}, time.Time{}
		g.editions.put(struct{}{}, edition)
	}
}

// KnowsKeys reports whether the gate could admit a request now if the directory did not answer: it has looked up a key in the last
// five minutes, and knows about no change since.
func (g *Gate) KnowsKeys() bool {
	now := g.config.Now()
	present, _, ok := g.cachedVersion(now)
	newest := g.keys.newest.Load()
	return ok && newest != nil && newest.version == present && within(now, newest.loadedAt, staleTTL)
}
