package policy

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestACallerInAHurryGetsWhatIsKnownFromAHangingDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRealWorld(t)
		wantCode(t, "", nil)(w.admit(t.Context()))
		defer w.directory.hold()()
		time.Sleep(freshFor + 1)
		ctx, cancel := context.WithTimeout(t.Context(), lookupTimeout/2)
		defer cancel()
		wantCode(t, "", nil)(w.admit(ctx))
		wantCode(t, "", context.DeadlineExceeded)(w.find(ctx, "shop"))
	})
}

// Hanging up during a refresh must not pass for a failure of the directory, or a client who does it over and over would
// keep a revoked key working.
func TestHangingUpDoesNotProlongWhatIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRealWorld(t)
		wantCode(t, "", nil)(w.admit(t.Context()))
		time.Sleep(freshFor + 1)
		w.edit(revoke)
		release := w.directory.hold()
		ctx, hangUp := context.WithCancel(t.Context())
		var gone sync.WaitGroup
		gone.Go(func() { _, _ = w.admit(ctx) })
		synctest.Wait()
		hangUp()
		gone.Wait()
		var next sync.WaitGroup
		next.Go(func() { wantCode(t, CodeRevokedKey, nil)(w.admit(t.Context())) })
		synctest.Wait()
		release()
		next.Wait()
		wantCalls(t, w.directory, 2)
	})
}

func TestAQuestionHasItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRealWorld(t)
		w.directory.hold()
		start := time.Now()
		wantCode(t, "", context.DeadlineExceeded)(w.admit(t.Context()))
		wantCode(t, "", context.DeadlineExceeded)(w.find(t.Context(), "shop"))
		if took := time.Since(start); took != 2*lookupTimeout {
			t.Errorf("two questions to a directory that hangs took %v", took)
		}
	})
}

func TestWhatIsKnownOutlivesAFailureByFiveMinutes(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world, known, unknown func(context.Context) (string, error), unknownCode string) {
		wantCode(t, "", nil)(known(t.Context()))
		w.directory.fail(errDown)
		const step = 100 * time.Millisecond
		for range 5 * time.Minute / step {
			w.clock.advance(step)
			wantCode(t, "", nil)(known(t.Context()))
		}
		// Each time it is tried again on the first step that is more than a second later.
		wantCalls(t, w.directory, 1+int(5*time.Minute/(time.Second+step)))
		w.clock.advance(1)
		wantCode(t, "", errDown)(known(t.Context()))

		w.directory.fail(nil)
		wantCode(t, "", nil)(known(t.Context()))
		w.directory.fail(errDown)
		w.clock.advance(5 * time.Minute)
		wantCode(t, "", nil)(known(t.Context()))
	})
}

func TestAFailureIsNotRemembered(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world, known, unknown func(context.Context) (string, error), unknownCode string) {
		w.directory.fail(errDown)
		wantCode(t, "", errDown)(known(t.Context()))
		w.directory.fail(nil)
		wantCode(t, "", nil)(known(t.Context()))
	})
}

func TestAFailureSaysWhatWasTried(t *testing.T) {
	w := newWorld(t)
	w.directory.fail(errDown)
	_, err := w.request(t.Context(), "Bearer "+goodKey, 0)
	if err == nil || err.Error() != "look up a key: the directory is down" {
		t.Errorf("key: %v", err)
	}
	key := good()
	if _, err = w.Property(t.Context(), &Grant{Key: &key}, "shop"); err == nil || err.Error() != "look up a property: the directory is down" {
		t.Errorf("property: %v", err)
	}
}

func TestNoFailureCarriesAKeyPastItsExpiryOrItsPlan(t *testing.T) {
	f := func(limit func(k *Key, at time.Time), code string) {
		t.Helper()
		w := newWorld(t)
		w.edit(func(k *Key) { limit(k, w.clock.now().Add(time.Minute)) })
		wantCode(t, "", nil)(w.admit(t.Context()))
		w.directory.fail(errDown)
		w.clock.advance(time.Minute - 1)
		wantCode(t, "", nil)(w.admit(t.Context()))
		w.clock.advance(1)
		wantCode(t, code, nil)(w.admit(t.Context()))
	}
	f(func(k *Key, at time.Time) { k.ExpiresAt = at }, CodeExpiredKey)
	f(func(k *Key, at time.Time) { k.PlanEnd = at }, CodeNoAccess)
}

func TestARecoveredDirectoryIsHeardWithinOneSecond(t *testing.T) {
	w := newWorld(t)
	wantCode(t, "", nil)(w.admit(t.Context()))
	w.directory.fail(errDown)
	w.clock.advance(2 * time.Second)
	wantCode(t, "", nil)(w.admit(t.Context()))
	w.directory.fail(nil)
	w.edit(revoke)
	w.clock.advance(time.Second + 1)
	wantCode(t, CodeRevokedKey, nil)(w.admit(t.Context()))
}

// "There is no such key" is nothing to keep alive: while nobody can be asked, it may have become wrong.
func TestWhatIsUnknownDoesNotOutliveAFailure(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world, _, unknown func(context.Context) (string, error), unknownCode string) {
		wantCode(t, unknownCode, nil)(unknown(t.Context()))
		w.directory.fail(errDown)
		w.clock.advance(time.Second)
		wantCode(t, unknownCode, nil)(unknown(t.Context()))
		w.clock.advance(1)
		wantCode(t, "", errDown)(unknown(t.Context()))
	})
}

// Those who come while a failed directory is tried again are answered from memory, or a directory that hangs would hold
// up every request for as long as a question may take.
func TestAHangingDirectoryHoldsUpOneRequestASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRealWorld(t)
		wantCode(t, "", nil)(w.admit(t.Context()))
		w.directory.hold()
		time.Sleep(freshFor + 1)
		wantCode(t, "", nil)(w.admit(t.Context())) // the first to find out
		var held atomic.Int32
		var all sync.WaitGroup
		for range 60 {
			time.Sleep(time.Second / 10)
			all.Go(func() {
				start := time.Now()
				wantCode(t, "", nil)(w.admit(t.Context()))
				if time.Since(start) > 0 {
					held.Add(1)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if held.Load() > 3 {
			t.Errorf("%d of 60 requests in 6 seconds waited for a directory that hangs", held.Load())
		}
	})
}

// A bug in a directory belongs to the request that ran into it, where the server catches it; on a goroutine of its own it
// would end the process.
func TestAPanicOfTheDirectoryReachesTheCaller(t *testing.T) {
	w := newWorld(t)
	l, err := newLookup(w.clock.now, w.directory.Generation, 10, func(context.Context, string) (string, error) { panic("a bug") })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "a bug") || !strings.Contains(fmt.Sprint(p), "outage_test.go") {
			t.Errorf("recovered %v, want the bug and where it is", p)
		}
	}()
	_, _ = l.get(t.Context(), "x")
}
