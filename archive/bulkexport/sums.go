package bulkexport

import (
	"bytes"
	"cmp"
	"errors"
	"hash/maphash"
	"math/bits"
	"slices"

	"sara/archive"
	"sara/translate"
)

// group is a day under a dimension.
type group struct {
	date translate.Date
	by   translate.Dimension
}

// figures are sums of rows. Positions are sums from zero, as the export has them: whole numbers, whose float64 sum is exact and so does
// not depend on the order of the rows.
type figures struct {
	clicks, impressions int64
	positions           float64
}

// largest bounds the sums of an import, and each figure of a row.
const largest = 1 << 53

var errTooLarge = errors.New("the clicks, impressions or positions of a day exceed 2^53")

func (f *figures) add(other figures) error {
	f.clicks += other.clicks
	f.impressions += other.impressions
	f.positions += other.positions
	if f.clicks > largest || f.impressions > largest || f.positions > largest {
		return errTooLarge
	}
	return nil
}

// sums adds up figures by group and key, in a fixed amount of memory that it allocates once: a hash table with open addressing, whose keys
// are in one slice, so the garbage collector has no pointers to follow. Frequent keys, such as countries, take their space only once,
// however many rows there are.
type sums struct {
	entries []sum
	keys    []byte
	slots   []uint32 // 1 + the index of an entry; 0 is free
	seed    maphash.Seed
}

type sum struct {
	start  uint32 // of the key
	length uint16
	by     translate.Dimension
	date   translate.Date
	figures
}

const (
	// entryBytes is the memory of an entry with its slots and a key of the average length that fits.
	entryBytes      = 48 + 2*4 + averageKey
	averageKey      = 64
	leastEntryCount = 16
)

// newSums returns a table of the given size in bytes.
func newSums(size int) *sums {
	n := max(size/entryBytes, leastEntryCount)
	return &sums{
		entries: make([]sum, 0, n),
		keys:    make([]byte, 0, max(n*averageKey, 2*archive.LongestKey)),
		slots:   make([]uint32, 1<<bits.Len(uint(n+n/2))),
		seed:    maphash.MakeSeed(),
	}
}

// add adds figures. It reports false if there is no room; then the table must be emptied first.
func (s *sums) add(g group, key []byte, f figures) (bool, error) {
	hash := maphash.Bytes(s.seed, key) ^ uint64(g.date)*0x9e3779b97f4a7c15 ^ uint64(g.by)<<60
	hash ^= hash >> 32
	mask := uint64(len(s.slots) - 1)
	at := hash & mask
	for ; s.slots[at] != 0; at = (at + 1) & mask {
		e := &s.entries[s.slots[at]-1]
		if e.date == g.date && e.by == g.by && bytes.Equal(s.key(e), key) {
			return true, e.add(f)
		}
	}
	if len(s.entries) == cap(s.entries) || len(s.keys)+len(key) > cap(s.keys) {
		return false, nil
	}
	s.entries = append(s.entries, sum{start: uint32(len(s.keys)), length: uint16(len(key)), by: g.by, date: g.date, figures: f})
	s.keys = append(s.keys, key...)
	s.slots[at] = uint32(len(s.entries))
	return true, nil
}

func (s *sums) key(e *sum) []byte { return s.keys[e.start : e.start+uint32(e.length)] }

// sorted returns the entries in the order of their groups and then their keys. Nothing can be added until the table is emptied.
func (s *sums) sorted() []sum {
	slices.SortFunc(s.entries, func(a, b sum) int {
		return cmp.Or(compareGroups(group{a.date, a.by}, group{b.date, b.by}), bytes.Compare(s.key(&a), s.key(&b)))
	})
	return s.entries
}

func compareGroups(a, b group) int {
	return cmp.Or(cmp.Compare(a.date, b.date), cmp.Compare(a.by, b.by))
}

func (s *sums) empty() {
	s.entries, s.keys = s.entries[:0], s.keys[:0]
	clear(s.slots)
}
