package cache

import "sara/translate"

// A ranking orders the rows of one entry.
type ranking struct {
	*translate.Ranking
	of uint64 // the id of the entry
}

// Ranked returns the rows of an entry with their ranking in an order, so that selecting a page costs the same wherever it begins. The
// ranking is made once and kept in memory, in addition to the entry: it counts against the account's share, and may be evicted earlier.
func (c *Cache) Ranked(e *Entry, o translate.Order, accountID string) *translate.Rows {
	return e.Rows().Ranked(c.memory.ranking(e, o, accountID))
}

func (m *memory) ranking(e *Entry, o translate.Order, account string) *translate.Ranking {
	key := memoryKey{kind: ofRanking, text: o.String() + " " + e.key}
	if found, _ := m.values.Get(key); found.ranking != nil && found.ranking.of == e.id {
		return found.ranking.Ranking
	}
	made := e.Rows().Rank(o)
	m.values.PutWeighted(key, value{ranking: &ranking{made, e.id}}, weigh(len(key.text)+made.Size()), account)
	return made
}
