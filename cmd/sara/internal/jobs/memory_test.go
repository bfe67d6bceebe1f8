package jobs

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sara/proxy/fillbudget"
	"sara/proxy/upstream"
)

// A call of a job waits until no request needs the memory, however long that takes, and gives its own back.
func TestCallsOfJobsWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fills, err := fillbudget.New(fillbudget.Config{Bytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		request, err := fills.Acquire(t.Context(), fillbudget.Claim{Account: "a", Bytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, request.Release)
		began, g := time.Now(), Gateway{Fills: fills}
		for range 2 {
			called := false
			if err := g.within(t.Context(), upstream.Target{PropertyID: "p"}, 400, func() error { called = true; return nil }); err != nil || !called {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began); waited < time.Minute || waited > 2*time.Minute {
			t.Errorf("the calls waited %v", waited)
		}
		if _, err := fills.Acquire(t.Context(), fillbudget.Claim{Account: "a", Bytes: 1000}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err = g.within(ctx, upstream.Target{}, 400, func() error { t.Error("a call without memory"); return nil })
		if err == nil {
			t.Error("no error when the context ends")
		}
	})
}
