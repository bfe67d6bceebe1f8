package translate

import (
	"bytes"
	"cmp"
	"slices"
)

// Keyed are figures with distinct keys, by number, to be made into Rows.
type Keyed struct {
	Len     int
	Key     func(i int) []byte
	Clicks  func(i int) int64
	Metrics func(i int) Metrics
}

// Ranked returns the numbers of the first ones in the upstream's order, or of all if first is 0: by their clicks, the most first, and
// then by key. It uses the memory of scratch. Clicks and number are sorted as one integer; the few keys with equal clicks are sorted by key
// afterwards.
func (k Keyed) Ranked(scratch []uint64, first int) []uint64 {
	const most = 1<<(64-numberBits) - 1
	ranked := slices.Grow(scratch[:0], 2*k.Len)
	for i := range k.Len {
		ranked = append(ranked, (most-uint64(min(k.Clicks(i), most)))<<numberBits|uint64(i))
	}
	if 0 < first && first < k.Len {
		ranked = leastNumbered(ranked, first)
	} else {
		first = k.Len
	}
	sortNumbered(ranked, ranked[k.Len:2*k.Len])
	for begin := 0; begin < len(ranked); {
		end := begin + 1
		for end < len(ranked) && ranked[end]>>numberBits == ranked[begin]>>numberBits {
			end++
		}
		ties, areMost := ranked[begin:end], ranked[begin]>>numberBits == 0 // which may differ
		for i := range ties {
			ties[i] &= 1<<numberBits - 1
		}
		if len(ties) > 1 {
			slices.SortFunc(ties, func(a, b uint64) int {
				if areMost && k.Clicks(int(a)) != k.Clicks(int(b)) {
					return cmp.Compare(k.Clicks(int(b)), k.Clicks(int(a)))
				}
				return bytes.Compare(k.Key(int(a)), k.Key(int(b)))
			})
		}
		begin = end
	}
	return ranked[:first]
}

// Rows returns rows of the first ones, in the order in which Ranked has returned their numbers. If there are more, the rows count them,
// but do not have them, so that they are only for a Report whose FirstRows are no more.
func (k Keyed) Rows(ranked []uint64) *Rows {
	rows := k.build(len(ranked), func(place int) int { return int(ranked[place]) })
	rows.ordered, rows.beyond = true, k.Len-len(ranked)
	return rows
}

// Unranked returns rows of all, in the order of their numbers.
func (k Keyed) Unranked() *Rows { return k.build(k.Len, samePlace) }

func (k Keyed) build(n int, at func(place int) int) *Rows {
	size := 0
	for place := range n {
		size += len(k.Key(at(place)))
	}
	var b RowsBuilder
	b.Grow(n, size)
	for place := range n {
		i := at(place)
		b.Add(k.Key(i), k.Metrics(i))
	}
	return b.Rows()
}
