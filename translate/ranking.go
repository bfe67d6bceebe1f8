package translate

import (
	"math"
	"slices"
	"unsafe"
)

// A Ranking is the order of all rows of a table, so that a page is a slice of it, wherever it begins. It is immutable.
//
// The pages of a table must be of one order. The narrow sample answers the first pages of the upstream's order, the wide one all
// others, and the upstream leaves open how it orders rows with equal clicks, so it may cut the narrow sample among them. In
// this order, the rows of the narrow sample therefore come first, and only then the others; both parts have ties by key.
type Ranking struct {
	order Order
	rows  []int32 // the number of the row at each place; nil: the rows are in this order
}

// Rank returns the ranking of the rows in an order.
func (r *Rows) Rank(o Order) *Ranking {
	if o.isUpstream() && r.areRankedBy(NarrowSample) {
		return &Ranking{order: o}
	}
	both := make([]uint64, 2*r.Len())
	ranked, spare := both[:r.Len()], both[r.Len():]
	value := o.value()
	for i := range ranked {
		ranked[i] = roughly(value(&r.metrics[i]))<<numberBits | uint64(i)
	}
	if cut := min(len(ranked), NarrowSample); o.isUpstream() {
		o.sort(r, ranked[:cut], spare)
		o.sort(r, ranked[cut:], spare)
	} else {
		o.sort(r, ranked, spare)
	}
	rows := make([]int32, len(ranked))
	for i, rank := range ranked {
		rows[i] = int32(rank & rowNumber)
	}
	return &Ranking{order: o, rows: rows}
}

// Size returns the bytes of memory that the ranking holds.
func (k *Ranking) Size() int {
	return int(unsafe.Sizeof(*k)) + cap(k.rows)*int(unsafe.Sizeof(int32(0)))
}

// row returns the number of the row at a place.
func (k *Ranking) row(place int) int {
	if k.rows == nil {
		return place
	}
	return int(k.rows[place])
}

// Ranked returns the same rows with a ranking that Rank has returned for them, for Report.AppendHead. They share memory.
func (r *Rows) Ranked(k *Ranking) *Rows {
	ranked := *r
	ranked.ranking = k
	return &ranked
}

// rankedIn returns the ranking in an order: the one that Ranked was given, or a new one.
func (r *Rows) rankedIn(o Order) *Ranking {
	if r.ranking != nil && r.ranking.order == o {
		return r.ranking
	}
	return r.Rank(o)
}

const rowNumber = 1<<numberBits - 1

// roughly returns the upper bits of a figure as an integer that ascends with it: all of a whole number up to 2^28.
func roughly(f float64) uint64 {
	const sign = 1 << 63
	bits := math.Float64bits(f)
	switch {
	case f == 0: // or -0, which equals it
		bits = sign
	case f < 0:
		bits = ^bits
	default:
		bits |= sign
	}
	return bits >> numberBits
}

// sort sorts numbers of rows, each below its rough figure: one integer, as ranked sums are. Rows whose rough figures are equal
// are sorted by their exact figures and their keys afterwards. It uses the memory of spare.
func (o Order) sort(rows *Rows, ranked, spare []uint64) {
	sortNumbered(ranked, spare)
	value := o.value()
	exactly := func(a, b uint64) int {
		i, j := int32(a&rowNumber), int32(b&rowNumber)
		return o.compare(rows, rankedRow(rows, value, i), rankedRow(rows, value, j))
	}
	for begin := 0; begin < len(ranked); {
		end := begin + 1
		for end < len(ranked) && ranked[end]>>numberBits == ranked[begin]>>numberBits {
			end++
		}
		if end > begin+1 {
			slices.SortFunc(ranked[begin:end], exactly)
		}
		begin = end
	}
}

func rankedRow(rows *Rows, value func(*Metrics) float64, i int32) ranked {
	return ranked{value: value(&rows.metrics[i]), row: i}
}
