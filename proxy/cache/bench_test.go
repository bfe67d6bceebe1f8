package cache

import (
	"strings"
	"testing"
	"time"

	"sara/policy/redistest"
)

func BenchmarkAnswer(b *testing.B) {
	c := newReplica(b, nil, newClock())
	q := answering(rowsOf(b, 1000)).request("p", narrow("a"))
	found, err := c.Do(b.Context(), q)
	if err != nil {
		b.Fatal(err)
	}
	key, head := []byte("a key as long as the path and the query of a request are"), []byte(strings.Repeat(`{"query":"best shoes","clicks":12},`, 230))
	c.Keep(key, "account", NewAnswer(head, time.Time{}, found.Entry))
	tail := []byte(`"request_id":"0123456789"}`)
	dst := make([]byte, 0, 2*len(head))
	b.Run("hit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.Answer(key)
		}
	})
	b.Run("hit parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				c.Answer(key)
			}
		})
	})
	b.Run("end of gzip", func(b *testing.B) {
		b.ReportAllocs()
		a := c.Answer(key)
		for b.Loop() {
			dst = a.AppendPacked(dst[:0], tail)
		}
	})
	b.Run("gzip 8 kB, first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			NewAnswer(head, time.Time{}).Packed()
		}
	})
}

func BenchmarkDo(b *testing.B) {
	server := redistest.Single(b)
	c := newReplica(b, server.Client(), newClock())
	q := answering(rowsOf(b, 1000)).request("p", narrow("a"))
	first, err := c.Do(b.Context(), q)
	if err != nil {
		b.Fatal(err)
	}
	c.settle()
	b.Run("memory", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Do(b.Context(), q); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("redis, 1,000 rows", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.memory.evict(memoryKey{text: first.Entry.key})
			found, err := c.Do(b.Context(), q)
			if err != nil || found.Status != HitShared {
				b.Fatal(found, err)
			}
		}
	})
}

func BenchmarkPublish(b *testing.B) {
	server := redistest.Single(b)
	c := newReplica(b, server.Client(), newClock())
	for name, n := range map[string]int{"1,000 rows": 1000, "25,000 rows": 25000} {
		q := answering(rowsOf(b, n)).request(name, narrow("a"))
		found, err := c.Do(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		c.settle()
		l := newLookup(&q)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.redis.publish(l, &outcome{entry: found.Entry, status: Filled})
			}
		})
	}
}
