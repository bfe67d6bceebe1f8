package sitemap

import (
	"math/bits"
	"slices"
)

// maxFilesOfURL is how many files a URL is said to be in. Nobody has a reason for more; who draws some hundred files at random
// for each of many thousand URLs would fill the memory, and the tables of whoever keeps them.
const maxFilesOfURL = 32

// fileSets makes the sets of files that URLs are in. Equal sets share one slice, and a union costs one pass over bits:
// whoever lists the same pages in hundreds of files below hundreds of indexes gains nothing by it.
type fileSets struct {
	all   [][]int32 // each file and those above it, cut
	bits  [][]byte  // the same, a bit for each file
	known map[string][]int32
	mixed []byte
}

func newFileSets(files int) *fileSets {
	return &fileSets{known: map[string][]int32{}, mixed: make([]byte, (files+7)/8)}
}

// append adds the next file, with those above it.
func (s *fileSets) append(file int32, above []int32) {
	all := append(slices.Clone(above), file)
	slices.Sort(all)
	set := make([]byte, len(s.mixed))
	for _, f := range all {
		set[f/8] |= 1 << (f % 8)
	}
	s.all, s.bits = append(s.all, all[:min(len(all), maxFilesOfURL)]), append(s.bits, set)
}

// union returns the files given, at least one, and all above them; the first maxFilesOfURL if they are more.
func (s *fileSets) union(files []int32) []int32 {
	if len(files) == 1 {
		return s.all[files[0]]
	}
	clear(s.mixed)
	for _, f := range files {
		for i, b := range s.bits[f] {
			s.mixed[i] |= b
		}
	}
	if set, ok := s.known[string(s.mixed)]; ok {
		return set
	}
	var set []int32
	for i, b := range s.mixed {
		for ; b != 0 && len(set) < maxFilesOfURL; b &= b - 1 {
			set = append(set, int32(i*8+bits.TrailingZeros8(b))) // #nosec G115 -- an index of a file
		}
	}
	set = slices.Clip(set)
	s.known[string(s.mixed)] = set
	return set
}
