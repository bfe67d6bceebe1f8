package proxy

import (
	"sync"

	"sara/policy/lru"
	"sara/translate"
)

// maxTableSizes bounds the tables whose sizes are kept, of some hundred bytes each.
const maxTableSizes = 20_000

// tableSizes remembers how many rows the tables of properties had, as fills have found. The narrow sample of a small table is enlarged:
// it has all rows then, which saves the call for the wide sample of the same range. Learning the size of a table costs a sample of
// 5,001 rows in place of one of 1,001, once. It is safe for concurrent use.
type tableSizes struct {
	mu    sync.Mutex // serializes writes of known
	known *lru.Cache[tableKey, tableSize]
}

// A tableKey names a table without conditions: the queries or the pages of a property.
type tableKey struct {
	property string
	by       translate.Dimension
}

// A tableSize is what is known about a table; zeros are not known.
type tableSize struct {
	rows, days int // that a complete sample had, over so many days
	full       int // the fewest days of which an enlarged or wide sample was not complete
}

func newTableSizes() *tableSizes {
	return &tableSizes{known: lru.New[tableKey](lru.Config[tableSize]{Weight: maxTableSizes})}
}

// enlarged returns what a fill asks for in place of a query: the enlarged sample, unless the table is expected to have more rows.
func (t *tableSizes) enlarged(property string, q translate.Query) translate.Query {
	enlarged, ok := q.Enlarged()
	if !ok {
		return q
	}
	size, _ := t.known.Get(tableKey{property, q.Dimension})
	days := q.Range.Days()
	// Half the days may have few rows, although all of them have many. More days have at most proportionally more rows.
	isFull := size.full > 0 && 2*days > size.full
	isLarge := size.days > 0 && size.rows*max(days, size.days) >= translate.EnlargedSample*size.days
	if isFull || isLarge {
		return q
	}
	return enlarged
}

// learn records how many rows the result of a query had.
func (t *tableSizes) learn(property string, q translate.Query, rows int) {
	if q.Dimension != translate.ByQuery && q.Dimension != translate.ByPage || len(q.Conditions) > 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key, days := tableKey{property, q.Dimension}, q.Range.Days()
	size, _ := t.known.Get(key)
	switch {
	case rows < q.RowLimit && days >= size.days:
		size.rows, size.days = rows, days
	case rows >= q.RowLimit && q.RowLimit >= translate.EnlargedSample && (size.full == 0 || days < size.full):
		size.full = days
	default:
		return
	}
	t.known.Put(key, size)
}
