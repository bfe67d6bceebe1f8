package sitemap

import (
	"math/bits"
	"slices"
)

// maxFilesOfURL bounds the files recorded for a URL. Honest sites need fewer. An attacker could list each of many thousands of URLs in a
// random set of a hundred files, and so fill the memory and the database.
const maxFilesOfURL = 32

// fileSets interns the sets of files that URLs are in: equal sets share one slice, and a union is one pass over bit sets. So even
// an attack that lists the same pages in hundreds of files below hundreds of indexes costs little.
type fileSets struct {
	all  [][]int32          // by file: it and those above it, at most maxFilesOfURL
	bits [][]byte           // by file: it and those above it, as a bit set
	sets map[string][]int32 // interned, by bit set
	acc  []byte             // the union in progress
}

func newFileSets(files int) *fileSets {
	return &fileSets{sets: map[string][]int32{}, acc: make([]byte, (files+7)/8)}
}

// append adds the next file, with the files above it.
func (s *fileSets) append(file int32, above []int32) {
	all := append(slices.Clone(above), file)
	slices.Sort(all)
	set := make([]byte, len(s.acc))
	for _, f := range all {
		set[f/8] |= 1 << (f % 8)
	}
	s.all, s.bits = append(s.all, all[:min(len(all), maxFilesOfURL)]), append(s.bits, set)
}

// union returns the given files, at least one, and all above them: at most the first maxFilesOfURL.
func (s *fileSets) union(files []int32) []int32 {
	if len(files) == 1 {
		return s.all[files[0]]
	}
	clear(s.acc)
	for _, f := range files {
		for i, b := range s.bits[f] {
			s.acc[i] |= b
		}
	}
	if set, ok := s.sets[string(s.acc)]; ok {
		return set
	}
	var set []int32
	for i, b := range s.acc {
		for ; b != 0 && len(set) < maxFilesOfURL; b &= b - 1 {
			set = append(set, int32(i*8+bits.TrailingZeros8(b))) // #nosec G115 -- an index of a file
		}
	}
	set = slices.Clip(set)
	s.sets[string(s.acc)] = set
	return set
}
