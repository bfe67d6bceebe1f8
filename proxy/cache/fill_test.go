package cache

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/translate"
)

func TestFortyAtOnceAreOneFill(t *testing.T) {
	for _, bypass := range []bool{false, true} {
		c := newReplica(t, nil, newClock())
		var begun sync.WaitGroup
		begun.Add(40)
		upstream := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
			begun.Wait()
			return rowsOf(t, 3), nil
		}}
		q := upstream.question("p", narrow("a"))
		q.Bypass = bypass
		all, errs := crowd(t, 40, &begun, q, c)
		hows := map[Status]int{}
		for i, found := range all {
			if errs[i] != nil || found.Entry != all[0].Entry {
				t.Errorf("found %+v, %v", found, errs[i])
			}
			hows[found.Status]++
		}
		if hows[Filled] != 1 || hows[Coalesced] != 39 {
			t.Errorf("found %v, want one that filled and the others that waited", hows)
		}
		upstream.want(t, 1)
	}
}

func TestASharedErrorIsEverybodysAndAPersonalOneIsNot(t *testing.T) {
	for _, test := range []struct {
		name         string
		err          error
		failed, fill int64
	}{{"shared", errUpstream, 40, 1}, {"personal", errBudget, 1, 2}} {
		t.Run(test.name, func(t *testing.T) {
			c := newReplica(t, nil, newClock())
			var begun sync.WaitGroup
			begun.Add(40)
			upstream := &backend{fill: func(_ context.Context, n int64) (*translate.Rows, error) {
				begun.Wait()
				if n == 1 {
					return nil, test.err
				}
				return rowsOf(t, 3), nil
			}}
			_, errs := crowd(t, 40, &begun, upstream.question("p", narrow("a")), c)
			failed := int64(0)
			for _, err := range errs {
				if err == nil {
					continue
				}
				failed++
				if !errors.Is(err, test.err) {
					t.Errorf("failed with %v", err)
				}
			}
			if failed != test.failed {
				t.Errorf("%d failed, want %d", failed, test.failed)
			}
			upstream.want(t, test.fill)
		})
	}
}

func TestWhoeverStartedAFillMayLeave(t *testing.T) {
	c := newReplica(t, nil, newClock())
	leader, leave := context.WithCancel(t.Context())
	var begun sync.WaitGroup
	begun.Add(20)
	upstream := &backend{fill: func(ctx context.Context, _ int64) (*translate.Rows, error) {
		leave()
		begun.Wait()
		return rowsOf(t, 3), ctx.Err()
	}}
	q := upstream.question("p", narrow("a"))
	if found, err := c.Do(leader, q); !errors.Is(err, context.Canceled) || found.Entry != nil {
		t.Errorf("the leader found %+v, %v", found, err)
	}
	_, errs := crowd(t, 20, &begun, q, c)
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	upstream.want(t, 1)
}

func TestNobodyAsksForACallerWhoHasLeft(t *testing.T) {
	c := newReplica(t, nil, newClock())
	upstream := sourceOf(rowsOf(t, 3))
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := c.Do(left, upstream.question("p", narrow("a"))); !errors.Is(err, context.Canceled) {
		t.Errorf("Do: %v", err)
	}
	upstream.want(t, 0)
}

func TestAFillEndsAtItsTimeout(t *testing.T) {
	c := newReplica(t, nil, newClock())
	c.fillTimeout = time.Nanosecond
	upstream := &backend{fill: func(ctx context.Context, _ int64) (*translate.Rows, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	if _, err := c.Do(t.Context(), upstream.question("p", narrow("a"))); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Do: %v", err)
	}
}

func TestCloseEndsFillsAndLeavesNoGoroutine(t *testing.T) {
	c := newReplica(t, nil, newClock())
	var begun sync.WaitGroup
	begun.Add(10)
	upstream := &backend{fill: func(ctx context.Context, _ int64) (*translate.Rows, error) {
		begun.Wait()
		go c.Close()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	q := upstream.question("p", narrow("a"))
	if _, errs := crowd(t, 10, &begun, q, c); errors.Join(errs...) == nil || errs[3] == nil {
		t.Errorf("calls outlived Close without an error: %v", errs)
	}
	c.Close()
	wantNoGoroutine(t)
	if _, err := c.Do(t.Context(), q); !errors.Is(err, errClosed) {
		t.Errorf("Do after Close: %v", err)
	}
	upstream.want(t, 1)
}

func wantNoGoroutine(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	all := string(stacks[:runtime.Stack(stacks, true)])
	for _, frame := range []string{".(*Cache).fly", ".(*sharedStore).", ".listen."} {
		if strings.Contains(all, frame) {
			t.Errorf("a goroutine of the cache is left:\n%s", all)
		}
	}
}
