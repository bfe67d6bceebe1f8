package proxy

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/cespare/xxhash/v2"

	"sara/proxy/cache"
	"sara/translate"
)

// How long figures stay fresh. The upstream may still change or publish the last days before the anchor; earlier days are final.
// An answer from the archive stays fresh as long as the archive is the same, which is checked after freshArchived: an operator who
// has just filled it wants to see the result.
const (
	freshAtAnchor = 10 * time.Minute
	freshSettled  = 6 * time.Hour
	freshArchived = time.Minute
	// readingTime is how long a client may take to read a table page by page from the copy that its first page came from.
	readingTime = 10 * time.Minute
)

// ttl is how long upstream rows of the request's period stay fresh. A portfolio takes older ones, except where the upstream denies
// access: there it has to say so as soon as the property's own summary does.
func (c *call) ttl() time.Duration {
	if c.part && c.property.AccessProblem() == "" {
		return freshPortfolio
	}
	if c.params.Period.End >= c.window.Anchor-translate.LongestLag {
		return freshAtAnchor
	}
	return freshSettled
}

// acceptedAge is the age below which the request takes a copy that is fresh for ttl. Browsers and proxies send no-cache unasked,
// so it shortens that age to the shortest of all, and does not spend a call on every page view.
func (c *call) acceptedAge(ttl time.Duration) time.Duration {
	if c.noCache {
		return freshAtAnchor
	}
	return ttl
}

// copyTTL is how long the rows of a query are fresh for the request. The pages of a table should come from one copy, so a page after the
// first takes an older one than the first would, unless the table has a newer copy: then the first page may have come from that.
func (s *reportServer) copyTTL(ctx context.Context, c *call, q translate.Query) time.Duration {
	if c.params.Offset == 0 {
		return c.ttl()
	}
	if other, ok := q.Sibling(); ok {
		if newest, of := s.cache.AtHand(ctx, false, c.property.ID, c.grant.Key.AccountID, q, other); newest != nil && of.RowLimit != q.RowLimit {
			return c.ttl()
		}
	}
	return c.ttl() + readingTime
}

// isFresh reports whether an answer in memory can be sent again: its figures are fresh and, if it reads the archive, what the archive
// has of the property and the window are still the same.
func (s *reportServer) isFresh(ctx context.Context, q *reportRequest, answer *cache.Answer) bool {
	c := q.call
	sinceCheck := c.started.Sub(answer.Checked()) // negative if the clock was set back
	switch {
	case c.started.Sub(answer.Filled()) >= c.acceptedAge(c.ttl()):
		return false
	case !q.rests(answer) || sinceCheck >= 0 && sinceCheck < freshArchived:
		return true
	}
	basis := s.basis(ctx, c)
	return basis != 0 && answer.Check(basis, c.started)
}

// rests reports whether the answer to the request depends on the archive. answer may be nil.
func (q *reportRequest) rests(answer *cache.Answer) bool {
	return q.archived || answer != nil && answer.Rests()
}

// basis returns a number that identifies what an answer from the archive is built from besides the upstream's rows: the property's
// archive, and the window, which moves with the day. It is 0 if the archive cannot be listed.
func (s *reportServer) basis(ctx context.Context, c *call) uint64 {
	version, err := s.config.History.Version(ctx, c.property.ID)
	if err != nil {
		return 0
	}
	var fields [5 * binary.MaxVarintLen64]byte
	dst := binary.AppendUvarint(fields[:0], version)
	for _, day := range [...]translate.Date{c.window.Anchor, c.window.UpstreamStart, c.window.LiveStart, c.window.Earliest} {
		dst = binary.AppendVarint(dst, int64(day))
	}
	return xxhash.Sum64(dst)
}

// left returns how long a client may keep the answer: until its age or its basis must be checked again, or the same request means other days.
func (q *reportRequest) left(answer *cache.Answer) time.Duration {
	if answer.IsDoubted() {
		return 0
	}
	c := q.call
	ttl := c.ttl()
	left := min(ttl, ttl-c.started.Sub(answer.Filled()))
	if q.rests(answer) {
		left = min(left, freshArchived-c.started.Sub(answer.Checked()))
	}
	if c.params.Period.Preset != translate.PresetCustom || c.params.Period.End == c.window.Anchor { // which a later day may have been moved back to
		left = min(left, c.windowEnds.Sub(c.started))
	}
	return left
}
