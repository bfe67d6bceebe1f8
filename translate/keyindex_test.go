package translate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestKeyIndexNumbersKeysInTheirOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var x KeyIndex
	for range 20 { // used again
		numbers := map[string]int{}
		for range 1 + random.IntN(5) {
			n := random.IntN(700)
			x.Reserve(n)
			for range n {
				key := fmt.Sprint("key ", random.IntN(1000))
				want, known := numbers[key]
				if !known {
					want = len(numbers)
					numbers[key] = want
				}
				if got := x.Of([]byte(key)); got != want {
					t.Fatalf("%s is number %d, want %d", key, got, want)
				}
			}
		}
		for key, i := range numbers {
			if string(x.Key(i)) != key {
				t.Fatalf("number %d is %s, want %s", i, x.Key(i), key)
			}
		}
		if x.Len() != len(numbers) {
			t.Fatalf("%d keys, want %d", x.Len(), len(numbers))
		}
		x.Reset()
	}
}

// Clicks beyond what one integer holds beside the number are compared too.
func TestKeysAreRankedByClicksAndThenByKey(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 16))
	pick := []int64{0, 1, 2, 1<<40 - 2, 1<<40 - 1, 1 << 40, 1<<40 + 1, 1 << 53, 1<<62 + 1}
	for range 200 {
		var x KeyIndex
		n := random.IntN(300)
		x.Reserve(n)
		clicks := make([]int64, n)
		for i := range n {
			x.Of(fmt.Append(nil, random.IntN(1000), "-", i))
			clicks[i] = pick[random.IntN(len(pick))]
		}
		all := keyed{len: x.Len(), key: x.Key, clicks: func(i int) int64 { return clicks[i] }}
		ranked := all.ranked(make([]uint64, 3), 0)
		seen := make([]bool, n)
		for at, i := range ranked {
			seen[i] = true
			if at == 0 {
				continue
			}
			before := ranked[at-1]
			if clicks[before] < clicks[i] || clicks[before] == clicks[i] && string(x.Key(int(before))) > string(x.Key(int(i))) {
				t.Fatalf("%s with %d clicks is before %s with %d", x.Key(int(before)), clicks[before], x.Key(int(i)), clicks[i])
			}
		}
		if len(ranked) != n || slices.Contains(seen, false) {
			t.Fatalf("%d of %d keys, or some twice", len(ranked), n)
		}
		first := 1 + random.IntN(max(n, 1))
		if got := all.ranked(nil, first); !slices.Equal(got, ranked[:min(first, n)]) {
			t.Fatalf("the first %d of %d keys are %d, want %d", first, n, got, ranked[:min(first, n)])
		}
	}
}

// A row that only one part has keeps its figures bit for bit.
func TestMergeOfDistinctKeysChangesNoBit(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	var parts [3]RowsBuilder
	figures := map[string]Metrics{}
	for i := range 3000 {
		m := Metrics{Clicks: random.Int64N(40), Impressions: random.Int64N(1000), CTR: random.Float64(), Position: 1 + 90*random.Float64()}
		key := fmt.Sprint("key ", i)
		parts[i%3].Add([]byte(key), m)
		figures[key] = m
	}
	merged := new(Merger).Merge(ByQuery, 0, parts[0].Rows(), parts[1].Rows(), parts[2].Rows())
	if merged.Len() != len(figures) || !merged.areRankedBy(merged.Len()) {
		t.Fatalf("%d rows of %d, ranked: %t", merged.Len(), len(figures), merged.areRankedBy(merged.Len()))
	}
	for i := range merged.Len() {
		if m := merged.Metrics(i); m != figures[string(merged.Key(i))] {
			t.Errorf("%s: %+v, want %+v", merged.Key(i), m, figures[string(merged.Key(i))])
		}
	}
}

// A merger that is used again has nothing left of what it merged before, be that more or less.
func TestMergerUsedAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	part := func(n int) *Rows {
		var b RowsBuilder
		for range n {
			b.Add(fmt.Append(nil, random.IntN(2*n)), Metrics{Clicks: random.Int64N(5), Impressions: random.Int64N(9)})
		}
		return b.Rows()
	}
	var used Merger
	for _, n := range []int{300, 2, 0, 40, 3 * largestMerge, 5, 1000} {
		a, b := part(n), part(n/2)
		got, want := used.Merge(ByQuery, 0, a, b), new(Merger).Merge(ByQuery, 0, a, b)
		if got.Len() != want.Len() {
			t.Fatalf("%d rows of %d", got.Len(), want.Len())
		}
		for i := range want.Len() {
			if string(got.Key(i)) != string(want.Key(i)) || got.Metrics(i) != want.Metrics(i) {
				t.Fatalf("of %d rows, row %d is %s %+v, want %s %+v", n, i, got.Key(i), got.Metrics(i), want.Key(i), want.Metrics(i))
			}
		}
		for _, first := range []int{1, 10, min(n, maxDimensionLimit)} {
			p := &Params{Limit: max(first, 1), Order: parseOrder(DefaultOrder)}
			cut := used.Merge(ByQuery, first, a, b)
			if page := breakdownHead(nil, p, ByQuery, cut, Origin{}); string(page) != string(breakdownHead(nil, p, ByQuery, want, Origin{})) {
				t.Errorf("the first %d of %d rows: %s", first, want.Len(), page)
			}
		}
		if used.index.Len() > 0 || cap(used.sums) > 3*largestMerge {
			t.Errorf("after %d rows, the merger holds %d keys, and memory for %d", n, used.index.Len(), cap(used.sums))
		}
	}
}

// Rows in the order of the ranking are not sorted again, and the others are: both give the same first rows.
func TestFirstOfRankedRowsEqualsFirstOfOthers(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	o := parseOrder(DefaultOrder)
	for range 50 {
		var shuffled RowsBuilder
		for i := range random.IntN(60) {
			shuffled.Add(fmt.Append(nil, i), Metrics{Clicks: random.Int64N(5)})
		}
		rows := shuffled.Rows()
		ranked := new(Merger).Merge(ByQuery, 0, rows, new(Rows))
		n := random.IntN(70)
		first, same := o.first(rows, n), o.first(ranked, n)
		if len(first) != len(same) || len(first) != min(n, rows.Len()) {
			t.Fatalf("%d and %d rows of %d", len(first), len(same), n)
		}
		for i := range first {
			if a, b := rows.Key(int(first[i].row)), ranked.Key(int(same[i].row)); string(a) != string(b) {
				t.Errorf("row %d is %s and %s", i, a, b)
			}
		}
	}
}
