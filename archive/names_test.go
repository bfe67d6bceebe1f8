package archive

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"sara/translate"
)

// Concurrent reads number the months of a property together, and each has its own sums.
func TestConcurrentReadsShareTheNumbersOfKeys(t *testing.T) {
	random := rand.New(rand.NewPCG(21, 22))
	b := newCounting(t)
	days := anyDays(random, 400)
	if err := historyOf(t, HistoryConfig{Bucket: b}).Merge(t.Context(), testProperty, days); err != nil {
		t.Fatal(err)
	}
	r := translate.DateRange{Start: translate.NewDate(2024, 1, 25), End: translate.NewDate(2024, 3, 20)}
	for _, cache := range []int64{0, 32 << 10} { // the second one does not keep the names of many
		h := historyOf(t, HistoryConfig{Bucket: b, CacheBytes: cache})
		var group sync.WaitGroup
		for n := range 8 {
			group.Go(func() {
				by := Dimensions()[n%4] // not the totals
				for range 20 {
					result, err := h.Sum(t.Context(), testProperty, by, r)
					if err != nil {
						t.Error(err)
						return
					}
					if want, _, _ := reference(days, by, r); !slices.Equal(described(result.Sums.Rows(0)), want) {
						t.Errorf("%s: %q, want %q", by, described(result.Sums.Rows(0)), want)
					}
					result.Release()
				}
			})
		}
		group.Wait()
		if size := h.names.Weight(); size > 1<<23 || size == 0 {
			t.Errorf("the names take %d bytes", size)
		}
	}
}

// Names that have outgrown their share of the memory are not kept.
func TestNamesAreBounded(t *testing.T) {
	h := historyOf(t, HistoryConfig{Bucket: newCounting(t), CacheBytes: 8 << 10})
	n := h.namesOf(testProperty, translate.ByQuery)
	n.number([][]byte{[]byte("a"), []byte("b")})
	h.keepNames(testProperty, translate.ByQuery, n)
	if h.namesOf(testProperty, translate.ByQuery) != n {
		t.Error("few names are not kept")
	}
	n.number([][]byte{make([]byte, 1<<10)})
	h.keepNames(testProperty, translate.ByQuery, n)
	if h.namesOf(testProperty, translate.ByQuery) == n || h.names.Weight() > 0 {
		t.Errorf("names of %d bytes are kept", n.size)
	}
}
