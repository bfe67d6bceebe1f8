package translate

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"slices"
)

// A KeyIndex numbers distinct keys, from 0, in the order in which they come. It is a hash table with open addressing, which can be
// used again without allocating: adding up rows by key spends most of its time here. The zero value is ready to use.
type KeyIndex struct {
	seed  maphash.Seed // keys come from outside
	slots []int32      // the number of a key, plus one; 0 for a free slot. Their number is a power of two
	keys  []indexedKey
}

type indexedKey struct {
	text []byte
	hash uint64
}

// fewestSlots is enough for the tables of most days.
const fewestSlots = 256

// Reset forgets all keys.
func (x *KeyIndex) Reset() {
	clear(x.keys) // they refer to the memory of others
	x.keys, x.slots = x.keys[:0], x.slots[:0]
}

// Reserve makes room for n more keys. Without it Of panics.
func (x *KeyIndex) Reserve(n int) {
	slots := max(len(x.slots), fewestSlots)
	for slots < 2*(len(x.keys)+n) {
		slots *= 2
	}
	if slots == len(x.slots) {
		return
	}
	if x.seed == (maphash.Seed{}) {
		x.seed = maphash.MakeSeed()
	}
	x.keys = slices.Grow(x.keys, n)
	x.slots = slices.Grow(x.slots[:0], slots)[:slots]
	clear(x.slots)
	for i := range x.keys {
		at := x.keys[i].hash & uint64(slots-1)
		for x.slots[at] != 0 {
			at = (at + 1) & uint64(slots-1)
		}
		x.slots[at] = int32(i) + 1
	}
}

// Of returns the number of a key, which must not change until Reset.
func (x *KeyIndex) Of(key []byte) int {
	hash, last := maphash.Bytes(x.seed, key), uint64(len(x.slots)-1)
	for at := hash & last; ; at = (at + 1) & last {
		slot := &x.slots[at]
		if *slot == 0 {
			x.keys = append(x.keys, indexedKey{key, hash})
			*slot = int32(len(x.keys))
			return len(x.keys) - 1
		}
		if k := &x.keys[*slot-1]; k.hash == hash && bytes.Equal(k.text, key) {
			return int(*slot - 1)
		}
	}
}

// Len returns how many keys there are.
func (x *KeyIndex) Len() int { return len(x.keys) }

// Key returns key i. Its bytes are those that were passed to Of.
func (x *KeyIndex) Key(i int) []byte { return x.keys[i].text }

// Ranked returns the numbers of the first keys in the upstream's order, or of all if first is 0: by their clicks, the most first, and
// then by key. It uses the memory of scratch. Clicks and number are sorted as one integer; the few keys with equal clicks are sorted by key
// afterwards.
func (x *KeyIndex) Ranked(scratch []uint64, first int, clicks func(i int) int64) []uint64 {
	const most = 1<<(64-numberBits) - 1
	n := len(x.keys)
	ranked := slices.Grow(scratch[:0], 2*n)
	for i := range n {
		ranked = append(ranked, (most-uint64(min(clicks(i), most)))<<numberBits|uint64(i))
	}
	if 0 < first && first < n {
		ranked = leastNumbered(ranked, first)
	} else {
		first = n
	}
	sortNumbered(ranked, ranked[n:2*n])
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
				if areMost && clicks(int(a)) != clicks(int(b)) {
					return cmp.Compare(clicks(int(b)), clicks(int(a)))
				}
				return bytes.Compare(x.Key(int(a)), x.Key(int(b)))
			})
		}
		begin = end
	}
	return ranked[:first]
}

// Rows returns rows of the first keys, in the order in which Ranked has returned their numbers, with the figures of each. If there are
// more keys, the rows count them, but do not have them, so that they are only for a Report whose FirstRows are no more.
func (x *KeyIndex) Rows(ranked []uint64, figures func(i int) Metrics) *Rows {
	size := 0
	for _, i := range ranked {
		size += len(x.Key(int(i)))
	}
	var b RowsBuilder
	b.Grow(len(ranked), size)
	for _, i := range ranked {
		b.Add(x.Key(int(i)), figures(int(i)))
	}
	rows := b.Rows()
	rows.ordered, rows.beyond = true, len(x.keys)-len(ranked)
	return rows
}
