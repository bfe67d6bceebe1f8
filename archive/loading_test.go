package archive

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// loadOnce has callers get the same key at the same time, the first of them with ctx, and returns their errors, that of the first first, and
// the number of loads.
func loadOnce(t *testing.T, ctx context.Context, load func(context.Context) error) (errs []error, loads int) {
	t.Helper()
	const callers = 8
	cache := newLoadingCache(1, func(int) int64 { return 1 }, func(int) bool { return true },
		func(ctx context.Context, key string) (int, string, error) {
			loads++
			return loads, key, load(ctx)
		})
	errs = make([]error, callers)
	for i := range callers {
		go func() {
			_, errs[i] = cache.get(ctx, "key")
		}()
		synctest.Wait() // until it loads, or waits for the load
		ctx = context.WithoutCancel(ctx)
	}
	time.Sleep(time.Hour) // of the bubble: until the load ends
	synctest.Wait()
	return errs, loads
}

// A store that does not answer in time holds all who wait for it equally long.
func TestALoadThatTimesOutFailsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs, loads := loadOnce(t, t.Context(), func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		for _, err := range errs {
			if loads != 1 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the caller gets %v after %d loads", err, loads)
			}
		}
	})
}

// A caller that leaves, or whose time is over, takes its load with it: one of the others loads again.
func TestALoadIsRepeatedIfItsCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs, loads := loadOnce(t, ctx, func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Minute):
				return nil
			}
		})
		for i, err := range errs {
			if first := i == 0; loads != 2 || first != errors.Is(err, context.DeadlineExceeded) || first != (err != nil) {
				t.Errorf("caller %d gets %v after %d loads", i, err, loads)
			}
		}
	})
}
