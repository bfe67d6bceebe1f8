package schedule

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiterAllowsLimitPlusBurstInAnyMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limiter Limiter
		began := time.Now()
		a, b := Limit{"a", 570, 30}, Limit{"b", 60, 0}
		calls := make([][]time.Duration, 3) // with a, with b, with both
		var callers sync.WaitGroup
		for with, limits := range [][]Limit{{a}, {b}, {b, a}} {
			var mu sync.Mutex
			for range 4 {
				callers.Go(func() {
					for range 300 {
						if err := limiter.Wait(t.Context(), limits...); err != nil {
							t.Error(err)
						}
						mu.Lock()
						calls[with] = append(calls[with], time.Since(began))
						mu.Unlock()
					}
				})
			}
		}
		callers.Wait()
		most := func(times []time.Duration) (most int) {
			slices.Sort(times)
			for i, last := range times {
				first, _ := slices.BinarySearch(times, last-time.Minute+1)
				most = max(most, i-first+1)
			}
			return most
		}
		if n := most(slices.Concat(calls[0], calls[2])); n > 600 || n < 599 {
			t.Errorf("%d calls with a in a minute", n)
		}
		if n := most(slices.Concat(calls[1], calls[2])); n > 61 || n < 60 {
			t.Errorf("%d calls with b in a minute", n)
		}
	})
}

func TestLimiterWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limiter Limiter
		once := Limit{"rare", 1, 0}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := limiter.Wait(ctx, once); err != nil {
			t.Fatal(err)
		}
		if err := limiter.Wait(ctx, once); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait past the deadline: %v", err)
		}
		if err := limiter.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait after the deadline: %v", err)
		}
	})
}
