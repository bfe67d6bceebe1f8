package translate

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

func TestSortNumbered(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		n, most := random.IntN(1000), uint64(1)<<random.IntN(64-numberBits+1)
		numbered := make([]uint64, n)
		for i := range numbered {
			numbered[i] = random.Uint64N(most)<<numberBits | uint64(i)
		}
		want := slices.Sorted(slices.Values(numbered))
		sortNumbered(numbered, make([]uint64, n))
		if !slices.Equal(numbered, want) {
			t.Fatalf("%d figures below %d are in another order", n, most)
		}
	}
}

func TestLeastNumbered(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	for range 1000 {
		all, most := 2+random.IntN(1000), uint64(1)<<random.IntN(64-numberBits+1)
		numbered := make([]uint64, all)
		for i := range numbered {
			numbered[i] = (1<<(64-numberBits)-1-random.Uint64N(most))<<numberBits | uint64(i)
		}
		n := 1 + random.IntN(all-1)
		sorted := slices.Sorted(slices.Values(numbered))
		equal := n // as many have at most the nth least figure
		for equal < all && sorted[equal]>>numberBits == sorted[n-1]>>numberBits {
			equal++
		}
		got := leastNumbered(slices.Clone(numbered), n)
		if len(got) < equal || len(got) > equal+n {
			t.Fatalf("%d of %d figures below %d: %d, of which %d are needed", n, all, most, len(got), equal)
		}
		highest := slices.Max(got) >> numberBits
		want := slices.DeleteFunc(numbered, func(each uint64) bool { return each>>numberBits > highest })
		if !slices.Equal(got, want) {
			t.Fatalf("%d of %d figures below %d are others, or in another order", n, all, most)
		}
	}
}

// BenchmarkLeastNumbered takes the first page of tables whose rows are in ever new orders.
func BenchmarkLeastNumbered(b *testing.B) {
	benchmarkNumbered(b, func(numbered, _ []uint64) { leastNumbered(numbered, len(numbered)/6) })
}

// BenchmarkSortNumbered sorts clicks as they are in tables, in ever new orders: a processor learns the branches of a short sort.
func BenchmarkSortNumbered(b *testing.B) { benchmarkNumbered(b, sortNumbered) }

func benchmarkNumbered(b *testing.B, work func(numbered, spare []uint64)) {
	random := rand.New(rand.NewPCG(11, 12))
	clicks := rand.NewZipf(random, 1.1, 1, 200_000)
	for _, n := range []int{100, 400, 800, 25_000} {
		var orders [64][]uint64
		for o := range orders {
			for i := range n {
				orders[o] = append(orders[o], ^clicks.Uint64()<<numberBits|uint64(i))
			}
		}
		numbered, spare := make([]uint64, n), make([]uint64, n)
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				copy(numbered, orders[i%len(orders)])
				work(numbered, spare)
			}
		})
	}
}
