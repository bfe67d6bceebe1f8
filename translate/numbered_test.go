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

// BenchmarkSortNumbered sorts clicks as they are in tables, in ever new orders: a processor learns the branches of a short sort.
func BenchmarkSortNumbered(b *testing.B) {
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
				sortNumbered(numbered, spare)
			}
		})
	}
}
