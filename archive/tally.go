package archive

import (
	"slices"

	"sara/translate"
)

// A tally adds up rows by key over any number of months. The zero tally is empty, and reset empties it without giving up its
// memory, which is most of what a read would allocate.
type tally struct {
	index translate.KeyIndex
	sums  []translate.Sum // by the number of their key
	found []int32         // of the table that is being added: the number of each of its keys, plus one; 0 for one not looked up
	order []uint64
}

// largestTally is the number of keys from which a tally gives up its memory: few requests need that much.
const largestTally = 1 << 14

func (t *tally) reset() {
	if t.index.Len() > largestTally {
		*t = tally{}
		return
	}
	t.index.Reset()
	t.sums = t.sums[:0]
}

// add adds the rows of the days from first up to last: the sums of the table if these are all of its days. It looks up each distinct key
// of a table once.
func (t *tally) add(rows *table, first, last int) {
	start, end := rows.span(first, last)
	t.index.Reserve(len(rows.keys))
	if end-start == len(rows.day) {
		for i := range rows.sums {
			n := t.number(rows.keys[rows.sums[i].key])
			t.sums[n].AddSum(rows.sums[i].sum)
		}
		return
	}
	t.found = slices.Grow(t.found[:0], len(rows.keys))[:len(rows.keys)]
	clear(t.found)
	for i := start; i < end; i++ {
		found := &t.found[rows.key[i]]
		if *found == 0 {
			*found = int32(t.number(rows.keys[rows.key[i]])) + 1
		}
		t.sums[*found-1].AddWeighted(rows.clicks[i], rows.impressions[i], rows.weighted[i])
	}
}

// number returns the number of a key, for which there is room.
func (t *tally) number(key []byte) int {
	n := t.index.Of(key)
	if n == len(t.sums) {
		t.sums = append(t.sums, translate.Sum{})
	}
	return n
}

// rows returns the first sums in the upstream's order, or all if first is 0, see translate.KeyIndex.Rows.
func (t *tally) rows(first int) *translate.Rows {
	t.order = t.index.Ranked(t.order, first, func(i int) int64 { return t.sums[i].Clicks })
	return t.index.Rows(t.order, func(i int) translate.Metrics { return t.sums[i].Metrics() })
}
