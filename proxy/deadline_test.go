package proxy

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDeadlineEndsAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Minute)
		looked, ignored := &deadline{at: at}, &deadline{at: at}
		defer looked.end()
		defer ignored.end()
		child, cancel := context.WithCancel(looked)
		defer cancel()
		if got, ok := looked.Deadline(); !ok || !got.Equal(at) {
			t.Errorf("deadline %v, %v, want %v", got, ok, at)
		}
		time.Sleep(time.Minute - 1)
		if looked.Err() != nil || ignored.Err() != nil || child.Err() != nil {
			t.Errorf("before its time: %v, %v, %v", looked.Err(), ignored.Err(), child.Err())
		}
		<-child.Done()
		if !time.Now().Equal(at) {
			t.Errorf("a child ended at %v, want %v", time.Now(), at)
		}
		for _, ctx := range []context.Context{looked, ignored, child} {
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("at its time: %v", ctx.Err())
			}
			<-ctx.Done()
		}
		ignored.end()
		if !errors.Is(ignored.Err(), context.DeadlineExceeded) {
			t.Errorf("ended after its time: %v", ignored.Err())
		}
	})
}

func TestDeadlineEndsWithItsRequest(t *testing.T) {
	looked, ignored := &deadline{at: time.Now().Add(time.Hour)}, &deadline{at: time.Now().Add(time.Hour)}
	child, cancel := context.WithTimeout(looked, 2*time.Hour)
	defer cancel()
	if at, _ := child.Deadline(); !at.Equal(looked.at) {
		t.Errorf("a child lasts until %v, longer than %v", at, looked.at)
	}
	looked.end()
	ignored.end()
	late, cancelLate := context.WithCancel(ignored)
	defer cancelLate()
	for _, ctx := range []context.Context{looked, ignored, child, late} {
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("a context of a request that is over: %v", ctx.Err())
		}
	}
}

func TestCancelledChildLeavesDeadlineRunning(t *testing.T) {
	d := &deadline{at: time.Now().Add(time.Hour)}
	defer d.end()
	child, cancel := context.WithCancel(d)
	cancel()
	if child.Err() == nil || d.Err() != nil {
		t.Errorf("child %v, parent %v", child.Err(), d.Err())
	}
}

// For a context that is not its own, the standard library starts a goroutine.
func TestChildOfDeadlineStartsNoGoroutine(t *testing.T) {
	d := &deadline{at: time.Now().Add(time.Hour)}
	defer d.end()
	watchers := func() int {
		stacks := make([]byte, 1<<20)
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("created by context.(*cancelCtx).propagateCancel"))
	}
	child, cancel := context.WithCancel(d)
	defer cancel()
	if n := watchers(); n != 0 {
		t.Errorf("%d goroutines watch", n)
	}
	_, cancelHidden := context.WithCancel(valueless{child})
	defer cancelHidden()
	if n := watchers(); n != 1 {
		t.Errorf("the test sees %d goroutines where there is one", n)
	}
}

// valueless hides the standard library's context inside a context.
type valueless struct{ context.Context }

func (valueless) Value(any) any { return nil }

func TestDeadlineIsSafeForConcurrentUse(t *testing.T) {
	for range 100 {
		d := &deadline{at: time.Now().Add(time.Hour)}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				child, cancel := context.WithCancel(d)
				defer cancel()
				<-child.Done()
			})
			all.Go(func() {
				if err := d.Err(); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		all.Go(d.end)
		all.Wait()
	}
}
