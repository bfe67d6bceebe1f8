package archive

import (
	"sara/translate"
)

// tally adds up rows by key over any number of months of a property. Reset empties it but keeps its memory, which is most of what a read
// would allocate.
type tally struct {
	translate.Sums
	names  *names
	places []int32 // by the number of a name: the index of its sum, plus one; 0: none yet
	named  []int32 // the number of the name of each sum
}

// largestTally is the number of keys from which a tally frees its memory: few requests need that much.
const largestTally = 1 << 14

func (t *tally) reset() {
	if len(t.named) > largestTally || len(t.places) > 4*largestTally {
		*t = tally{}
		return
	}
	for _, name := range t.named {
		t.places[name] = 0
	}
	t.Sums.Reset()
	t.names, t.named = nil, t.named[:0]
}

// add adds the rows of the days from first up to last, or the table's sums if these are all of its days.
func (t *tally) add(of *table, first, last int) {
	numbered := of.numberedBy(t.names)
	if more := int(numbered.most) + 1 - len(t.places); more > 0 {
		t.places = append(t.places, make([]int32, more)...)
	}
	rows := of.span(first, last)
	if len(rows) == len(of.rows) {
		for i := range of.sums {
			t.sumOf(of, numbered, of.sums[i].key).AddSum(of.sums[i].sum)
		}
		return
	}
	for i := range rows {
		r := &rows[i]
		t.sumOf(of, numbered, r.key).AddWeighted(r.clicks, r.impressions, r.weighted)
	}
}

// sumOf returns the sum of a key of a table.
func (t *tally) sumOf(of *table, numbered *numbering, key int32) *translate.Sum {
	name := numbered.keys[key]
	if t.places[name] == 0 {
		t.Begin(of.keys[key])
		t.named = append(t.named, name)
		t.places[name] = int32(len(t.named))
	}
	return t.At(int(t.places[name]) - 1)
}
