package lru

import (
	stdlist "container/list"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"
)

// strictLRU is what the eviction is compared with.
type strictLRU struct {
	byUse stdlist.List // of int keys, the latest first
	byKey map[int]*stdlist.Element
	size  int
}

func (l *strictLRU) hit(key int) bool {
	if e, ok := l.byKey[key]; ok {
		l.byUse.MoveToFront(e)
		return true
	}
	l.byKey[key] = l.byUse.PushFront(key)
	if len(l.byKey) > l.size {
		delete(l.byKey, l.byUse.Remove(l.byUse.Back()).(int))
	}
	return false
}

// zipf draws ranks, of which rank i is as likely as 1/(i+1)^alpha.
func zipf(n int, alpha float64) func(*rand.Rand) int {
	sums, sum := make([]float64, n), 0.0
	for i := range sums {
		sum += math.Pow(float64(i+1), -alpha)
		sums[i] = sum
	}
	return func(r *rand.Rand) int { return sort.SearchFloat64s(sums, sum*r.Float64()) }
}

// A dashboard's few keys are read again and again, most keys once; a crawler reads each of its keys once.
func TestEvictionKeepsWhatIsReadAgain(t *testing.T) {
	const keys, requests, warm = 20_000, 60_000, 20_000
	for _, test := range []struct {
		alpha float64
		size  int
		scan  bool
		ahead float64 // of the hit rate of strict LRU
	}{
		{0.9, keys / 100, false, 0.10}, {0.9, keys / 10, false, 0.05},
		{0.9, keys / 100, true, 0.15}, {0.9, keys / 10, true, 0.12},
	} {
		t.Run(fmt.Sprintf("alpha %v, %d entries, scan %v", test.alpha, test.size, test.scan), func(t *testing.T) {
			draw, random := zipf(keys, test.alpha), rand.New(rand.NewPCG(1, 1))
			c, strict := New[int](Config[bool]{Weight: int64(test.size)}), &strictLRU{byKey: map[int]*stdlist.Element{}, size: test.size}
			get := func(key int) bool {
				_, ok := c.Get(key)
				if !ok {
					c.Put(key, true)
				}
				return ok
			}
			hits, strictHits := 0, 0
			for i := range requests {
				key := draw(random)
				ok, strictOK := get(key), strict.hit(key)
				if i >= warm && ok {
					hits++
				}
				if i >= warm && strictOK {
					strictHits++
				}
				if test.scan {
					get(-i - 1)
					strict.hit(-i - 1)
				}
			}
			rate, strictRate := float64(hits)/(requests-warm), float64(strictHits)/(requests-warm)
			if rate < strictRate+test.ahead {
				t.Errorf("hits %.3f, with strict LRU %.3f: want at least %.2f more", rate, strictRate, test.ahead)
			}
		})
	}
}
