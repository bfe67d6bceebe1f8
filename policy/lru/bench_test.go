package lru

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func BenchmarkCache(b *testing.B) {
	const n = 1 << 10
	keys := make([]string, 0, n)
	c := New[string](Config[*int]{Weight: n})
	for i := range n {
		keys = append(keys, fmt.Sprintf("a key as long as the path and the query of a request are, nearly %d", i))
		c.Put(keys[i], &i)
	}
	b.Run("hit", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			c.Get(keys[i%n])
		}
	})
	b.Run("parallel hits of one key", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				c.Get(keys[0])
			}
		})
	})
	b.Run("parallel hits", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for i := rand.Int(); pb.Next(); i++ {
				c.Get(keys[i&(n-1)])
			}
		})
	})
	b.Run("put and evict", func(b *testing.B) {
		b.ReportAllocs()
		small := New[int](Config[*int]{Weight: n})
		for i := 0; b.Loop(); i++ {
			small.Put(i, nil)
		}
	})
}
