package policy

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func newTestAuthLimiter(t *testing.T, now func() time.Time) *authLimiter {
	t.Helper()
	s, err := newAuthLimiter(now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Of any number of simultaneous guesses exactly the limit get to ask, and each address has a limit of its own.
func TestGuessesAreLimitedExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestAuthLimiter(t, time.Now)
		var asked atomic.Int64
		var done sync.WaitGroup
		for range 200 {
			done.Go(func() {
				decided, refusal := s.begin(t.Context(), "198.51.100.7")
				if refusal != nil {
					if refusal.Ceiling != AddressMinute || refusal.Limit != maxUnknownKeys || refusal.RetryAfter != 2*time.Second {
						t.Errorf("refused with %+v", refusal)
					}
					return
				}
				asked.Add(1)
				decided(true)
			})
		}
		done.Wait()
		if asked.Load() != maxUnknownKeys {
			t.Errorf("%d of 200 guesses asked, want %d", asked.Load(), maxUnknownKeys)
		}
		if _, refusal := s.begin(t.Context(), "198.51.100.8"); refusal != nil {
			t.Errorf("another address is refused: %+v", refusal)
		}
		time.Sleep(2 * time.Second) // of the test's own time
		if _, refusal := s.begin(t.Context(), "198.51.100.7"); refusal != nil {
			t.Errorf("two seconds later: %+v", refusal)
		}
	})
}

// After a restart the memory knows nobody: good keys behind one address all pass, however many come at once.
func TestGoodKeysWaitForEachOtherAndPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestAuthLimiter(t, time.Now)
		var most, now atomic.Int64
		var done sync.WaitGroup
		for range 500 {
			done.Go(func() {
				decided, refusal := s.begin(t.Context(), "198.51.100.7")
				if refusal != nil {
					t.Errorf("a good key is refused: %+v", refusal)
					return
				}
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Millisecond) // the directory, in the test's own time
				now.Add(-1)
				decided(false)
			})
		}
		done.Wait()
		if most.Load() > maxUnknownKeys {
			t.Errorf("%d tries at once, want %d at most", most.Load(), maxUnknownKeys)
		}
	})
}

// Who waits behind guesses is refused when they turn out to be that, or when the caller's patience ends.
func TestWaitingTriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestAuthLimiter(t, time.Now)
		var trying []func(bool)
		for range maxUnknownKeys {
			decided, _ := s.begin(t.Context(), "a")
			trying = append(trying, decided)
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, refusal := s.begin(impatient, "a"); refusal == nil {
			t.Error("a try passes while the limit is taken")
		}
		refused := make(chan *Refusal)
		go func() {
			_, refusal := s.begin(t.Context(), "a")
			refused <- refusal
		}()
		synctest.Wait()
		for _, decided := range trying {
			decided(true)
		}
		// A second went by above, which is half a try; nothing was given back.
		if refusal := <-refused; refusal == nil || refusal.RetryAfter != time.Second {
			t.Errorf("after %d guesses a try gets %+v, want a second to wait", maxUnknownKeys, refusal)
		}
	})
}
