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
	return newAuthLimiter(now)
}

// Of any number of concurrent guesses exactly the limit reach the directory. Each address has its own limit.
func TestUnknownKeysAreLimitedExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestAuthLimiter(t, time.Now)
		var passed atomic.Int64
		var done sync.WaitGroup
		for range 200 {
			done.Go(func() {
				finish, refusal := s.begin(t.Context(), "198.51.100.7")
				if refusal != nil {
					if refusal.Ceiling != AddressMinute || refusal.Limit != maxUnknownKeys || refusal.RetryAfter != 2*time.Second {
						t.Errorf("refusal %+v", refusal)
					}
					return
				}
				passed.Add(1)
				finish(true)
			})
		}
		done.Wait()
		if passed.Load() != maxUnknownKeys {
			t.Errorf("%d of 200 guesses passed, want %d", passed.Load(), maxUnknownKeys)
		}
		if _, refusal := s.begin(t.Context(), "198.51.100.8"); refusal != nil {
			t.Errorf("another address is refused: %+v", refusal)
		}
		time.Sleep(2 * time.Second) // synctest
		if _, refusal := s.begin(t.Context(), "198.51.100.7"); refusal != nil {
			t.Errorf("two seconds later: %+v", refusal)
		}
	})
}

// After a restart no key is cached: all valid keys behind one address pass, however many come at once.
func TestValidKeysOfOneAddressWaitAndPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestAuthLimiter(t, time.Now)
		var most, now atomic.Int64
		var done sync.WaitGroup
		for range 500 {
			done.Go(func() {
				finish, refusal := s.begin(t.Context(), "198.51.100.7")
				if refusal != nil {
					t.Errorf("a valid key is refused: %+v", refusal)
					return
				}
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Millisecond) // the directory's answer, in synctest time
				now.Add(-1)
				finish(false)
			})
		}
		done.Wait()
		if most.Load() > maxUnknownKeys {
			t.Errorf("%d concurrent attempts, want at most %d", most.Load(), maxUnknownKeys)
		}
	})
}

// An attempt that waits is refused when the pending ones turn out to be unknown keys, or when its context ends.
func TestWaitingAttemptsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestAuthLimiter(t, time.Now)
		var pending []func(bool)
		for range maxUnknownKeys {
			finish, _ := s.begin(t.Context(), "a")
			pending = append(pending, finish)
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, refusal := s.begin(impatient, "a"); refusal == nil {
			t.Error("an attempt passes although all tokens are taken")
		}
		refused := make(chan *Refusal)
		go func() {
			_, refusal := s.begin(t.Context(), "a")
			refused <- refusal
		}()
		synctest.Wait()
		for _, finish := range pending {
			finish(true)
		}
		// One second has passed, half an interval; no token was put back.
		if refusal := <-refused; refusal == nil || refusal.RetryAfter != time.Second {
			t.Errorf("after %d unknown keys: %+v, want a wait of one second", maxUnknownKeys, refusal)
		}
	})
}
