package translate

import "slices"

// numberBits is enough for the number of any key or row: no rows have so many.
const numberBits = 24

const (
	// digitBits are sorted in one pass.
	digitBits = 8
	// fewNumbered is the number of integers that comparisons sort faster.
	fewNumbered = 128
)

// leastNumbered returns the integers with the least figures, in the order that they have: n of them, those whose figures equal the
// highest of these, and at most n more. It is a radix selection, from the highest digit of the figures. It works in place; numbered
// has more than n integers.
func leastNumbered(numbered []uint64, n int) []uint64 {
	var differing uint64
	for _, each := range numbered {
		differing |= each ^ numbered[0]
	}
	shift := numberBits // of the highest digit that differs
	for differing>>shift >= 1<<digitBits {
		shift += digitBits
	}
	least, prefix := 0, numbered[0]>>(shift+digitBits) // how many have less than the prefix, which is that of the nth least figure
	for ; ; shift -= digitBits {
		var counts [1 << digitBits]uint32 // of those with the prefix, by their next digit
		for _, each := range numbered {
			if each>>(shift+digitBits) == prefix {
				counts[uint8(each>>shift)]++
			}
		}
		digit := 0
		for ; least+int(counts[digit]) < n; digit++ {
			least += int(counts[digit])
		}
		prefix = prefix<<digitBits | uint64(digit)
		if shift == numberBits || least+int(counts[digit]) <= 2*n {
			break
		}
	}
	kept := numbered[:0]
	for _, each := range numbered {
		if each>>shift <= prefix {
			kept = append(kept, each)
		}
	}
	return kept
}

// sortNumbered sorts integers that have a figure above a number of numberBits. Those of equal figures must be in the order of their
// numbers. It is a radix sort, from the lowest digit of the figures: figures of rows have few digits, and comparing them mispredicts
// branches, so comparisons take several times as long. It uses the memory of spare, which must have room for as many.
func sortNumbered(numbered, spare []uint64) {
	if len(numbered) < fewNumbered {
		slices.Sort(numbered)
		return
	}
	var differing uint64
	for _, n := range numbered {
		differing |= n ^ numbered[0]
	}
	from, to := numbered, spare[:len(numbered)]
	for shift := numberBits; shift < 64; shift += digitBits {
		if uint8(differing>>shift) == 0 {
			continue
		}
		var places [1 << digitBits]uint32 // of the next integer with each digit
		for _, n := range from {
			places[uint8(n>>shift)]++
		}
		next := uint32(0)
		for digit, count := range places {
			places[digit], next = next, next+count
		}
		for _, n := range from {
			place := &places[uint8(n>>shift)]
			to[*place] = n
			*place++
		}
		from, to = to, from
	}
	copy(numbered, from) // no copy after an even number of passes: then from is numbered
}
