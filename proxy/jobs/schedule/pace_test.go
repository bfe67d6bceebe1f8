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

func TestNoMinuteHasMoreCallsThanTheLimitAndItsBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pace Pace
		began := time.Now()
		a, b := Limit{"a", 570, 30}, Limit{"b", 60, 0}
		calls := make([][]time.Duration, 3) // with a, with b, with both
		var callers sync.WaitGroup
		for with, limits := range [][]Limit{{a}, {b}, {a, b}} {
			var mu sync.Mutex
			for range 4 {
				callers.Go(func() {
					for range 300 {
						if err := pace.Turn(t.Context(), limits...); err != nil {
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
		if n := most(slices.Concat(calls[0], calls[2])); n > 600 || n < 570 {
			t.Errorf("%d calls with a in a minute", n)
		}
		if n := most(slices.Concat(calls[1], calls[2])); n > 61 || n < 60 {
			t.Errorf("%d calls with b in a minute", n)
		}
	})
}

func TestWaitingForATurnEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pace Pace
		once := Limit{"rare", 1, 0}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := pace.Turn(ctx, once); err != nil {
			t.Fatal(err)
		}
		if err := pace.Turn(ctx, once); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a turn without time: %v", err)
		}
		if err := pace.Turn(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a turn after the end: %v", err)
		}
	})
}
