package translate

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// A KeyIndex numbers distinct keys, from 0, in the order in which they come. It is a hash table with open addressing, which can be
// reused without allocating: adding up rows by key spends most of its time here. The zero value is ready to use.
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
