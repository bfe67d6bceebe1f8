package archive

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parquet-go/parquet-go"

	"sara/archive/bucket"
	"sara/policy/panics"
	"sara/translate"
)

// loadOnce has callers get the same key concurrently, the first of them with ctx. It returns their errors, the first caller's first, and
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

// A store that does not answer in time delays all waiters equally.
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

// A caller who leaves, or whose time is over, does not end the load of the others.
func TestALoadContinuesWhenItsCallerLeaves(t *testing.T) {
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
			if first := i == 0; loads != 1 || first != errors.Is(err, context.DeadlineExceeded) || first != (err != nil) {
				t.Errorf("caller %d gets %v after %d loads", i, err, loads)
			}
		}
	})
}

// A broken is a bucket whose reads panic.
type broken struct{ bucket.Bucket }

func (broken) Get(context.Context, string) ([]byte, string, error) { panic("out of range") }

// Months are read in goroutines of their own, where a panic would end the process.
func TestAPanicOfALoadReachesTheCaller(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	date := day(t, "2026-03-01")
	if err := historyOf(t, HistoryConfig{Bucket: c}).Merge(t.Context(), testProperty,
		[]Day{{Date: date, Dimension: translate.ByQuery, Rows: queries(1, 10), Final: true}}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if bug, ok := recover().(*panics.Error); !ok || bug.Value != "out of range" {
			t.Errorf("the caller recovers %v", bug)
		}
	}()
	_, err := historyOf(t, HistoryConfig{Bucket: broken{c}}).Read(t.Context(), testProperty, translate.ByQuery,
		translate.DateRange{Start: date, End: date}, 0)
	t.Errorf("no panic: %v", err)
}

// A panicking is a row group that cannot be read.
type panicking struct{ parquet.RowGroup }

func (panicking) NumRows() int64 { panic("out of range") }

// A table whose decoding has panicked must not look empty to later callers.
func TestATableThatPanickedStaysAnError(t *testing.T) {
	t.Parallel()
	o := &object{name: "history.parquet"}
	o.groups[translate.ByQuery] = panicking{}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, _ = o.table(translate.ByQuery) // it panics
	}()
	if _, err := o.table(translate.ByQuery); !errors.Is(err, errPanicked) {
		t.Errorf("the second time: %v", err)
	}
}
