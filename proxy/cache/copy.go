package cache

import (
	"context"
	"time"

	"sara/translate"
)

// AtHand returns the newest copy that memory has of any of a property's queries, up to MaxStale old, and its query. If memory
// has none of that age and shared is set, it looks into Redis, which requires queries of one row a day. It never fills: entry is nil
// if there is no copy. The entry counts against the account's share of the memory. It may lack rows, unless the query is one of one
// row a day.
func (c *Cache) AtHand(ctx context.Context, shared bool, propertyID, accountID string, queries ...translate.Query) (
	entry *Entry, of translate.Query) {
	for i, q := range queries {
		if e := c.kept(propertyID, &queries[i]); e != nil && (entry == nil || e.filled.After(entry.filled)) {
			entry, of = e, q
		}
	}
	if entry = c.found(entry, HitMemory, MaxStale).Entry; entry == nil && shared && c.redis != nil {
		l := &lookup{Request: Request{PropertyID: propertyID, AccountID: accountID, Query: queries[0]}, began: time.Now()}
		all := make([]candidate, len(queries))
		for i := range queries {
			all[i], _ = candidateOf(propertyID, &queries[i], "")
		}
		l.lookFor(all)
		entry = c.fromRedis(ctx, l, Found{}).Entry
		for i := range all {
			if entry != nil && all[i].key == entry.key {
				of = all[i].query
			}
		}
	}
	if entry == nil {
		return nil, translate.Query{}
	}
	return entry, of
}

// A mention is what an answer says about days that its own rows do not show, based on a copy of the daily series.
type mention struct {
	key   string // of the series; empty: the answer says nothing
	asked translate.DateRange
	known translate.KnownDays
}

// Mention records what the answer says about the days of a property: the answer is outdated once memory has a copy of the series
// that shows something else. It must be called before Keep.
func (a *Answer) Mention(propertyID string, series translate.Query, known translate.KnownDays) {
	var buffer [usualKey]byte
	a.mention = mention{key: string(appendKey(buffer[:0], propertyID, &series)), asked: series.Range, known: known}
}

// KnownDays returns what the entry, which is a daily series or a grid over the days asked, shows about them. It is memoized.
func (e *Entry) KnownDays(asked translate.DateRange) translate.KnownDays {
	e.reading.Do(func() { e.known = translate.KnownDaysOf(e.Rows(), asked) })
	return e.known
}
