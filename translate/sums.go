package translate

import (
	"bytes"
	"cmp"
	"slices"
	"unsafe"
)

// Sums are the sums of rows by key, in the order in which their keys came. Used again, they allocate nothing but the rows that they return.
// The zero value is empty. Keys belong to the caller, and must not change until Reset.
type Sums struct {
	keys  [][]byte
	sums  []Sum
	order []uint64
	bytes int // of all keys
}

// Begin adds an empty sum for a key that has none.
func (s *Sums) Begin(key []byte) {
	s.keys, s.sums = append(s.keys, key), append(s.sums, Sum{})
	s.bytes += len(key)
}

// At returns sum i, which stays where it is until the next Begin.
func (s *Sums) At(i int) *Sum { return &s.sums[i] }

// Len returns the number of sums.
func (s *Sums) Len() int { return len(s.sums) }

// Size returns the bytes of the sums and their keys.
func (s *Sums) Size() int { return s.bytes + len(s.sums)*int(unsafe.Sizeof(Sum{})) }

// Reset forgets all sums.
func (s *Sums) Reset() {
	clear(s.keys) // they refer to the memory of others
	s.keys, s.sums, s.bytes = s.keys[:0], s.sums[:0], 0
}

// Rows returns rows of the first sums in the upstream's order, or of all if first is 0. They do not share memory.
func (s *Sums) Rows(first int) *Rows {
	all := keyed{
		len:     len(s.sums),
		key:     func(i int) []byte { return s.keys[i] },
		clicks:  func(i int) int64 { return s.sums[i].Clicks },
		metrics: func(i int) Metrics { return s.sums[i].Metrics() },
	}
	s.order = all.ranked(s.order, first)
	return all.build(s.order)
}

// keyed are figures with distinct keys, by number, to be made into Rows.
type keyed struct {
	len     int
	key     func(i int) []byte
	clicks  func(i int) int64
	metrics func(i int) Metrics
}

// ranked returns the numbers of the first ones in the upstream's order, or of all if first is 0: by their clicks, the most first, and
// then by key. It uses the memory of scratch. Clicks and number are sorted as one integer; the few keys with equal clicks are sorted by key
// afterwards.
func (k keyed) ranked(scratch []uint64, first int) []uint64 {
	const most = 1<<(64-numberBits) - 1
	ranked := slices.Grow(scratch[:0], 2*k.len)
	for i := range k.len {
		ranked = append(ranked, (most-uint64(min(k.clicks(i), most)))<<numberBits|uint64(i))
	}
	if 0 < first && first < k.len {
		ranked = leastNumbered(ranked, first)
	} else {
		first = k.len
	}
	sortNumbered(ranked, ranked[k.len:2*k.len])
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
				if areMost && k.clicks(int(a)) != k.clicks(int(b)) {
					return cmp.Compare(k.clicks(int(b)), k.clicks(int(a)))
				}
				return bytes.Compare(k.key(int(a)), k.key(int(b)))
			})
		}
		begin = end
	}
	return ranked[:first]
}

// build returns rows of the first ones, in the order in which ranked has returned their numbers. If there are more, the rows count them,
// but do not have them, so they are only for a Report whose FirstRows are no more.
func (k keyed) build(ranked []uint64) *Rows {
	size := 0
	for _, i := range ranked {
		size += len(k.key(int(i)))
	}
	var b RowsBuilder
	b.Grow(len(ranked), size)
	for _, i := range ranked {
		b.Add(k.key(int(i)), k.metrics(int(i)))
	}
	rows := b.Rows()
	rows.ordered, rows.beyond = true, k.len-len(ranked)
	return rows
}
