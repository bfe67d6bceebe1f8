package redisrows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sara/policy/redistest"
)

// Rows outside of the index are found when they fill the memory: those of a lost index, and on the counters' server those that
// were left there before the rows had a server of their own.
func TestWatchDeletesRowsOutsideOfIndex(t *testing.T) {
	for name, separate := range map[string]bool{"lost index": false, "counters' server": true} {
		t.Run(name, func(t *testing.T) {
			counters := redistest.Single(t, "--maxmemory", "8mb", "--maxmemory-policy", "noeviction").Client()
			config := Config{Rows: counters}
			if separate {
				config = Config{Rows: redistest.Single(t).Client(), Counters: counters}
			}
			for n := range 70 {
				if err := counters.Set(t.Context(), rowKey(n), strings.Repeat("x", 90<<10), time.Hour).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if err := counters.Set(t.Context(), "sara:{account}:use", "a counter", 0).Err(); err != nil {
				t.Fatal(err)
			}
			s, _ := newStore(t, config)
			ctx, stop := context.WithCancel(t.Context())
			tick := make(chan time.Time)
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.Watch(ctx, tick)
			}()
			tick <- time.Time{}
			tick <- time.Time{} // taken when the first look is over
			stop()
			<-done
			if n := counters.DBSize(t.Context()).Val(); n != 1 {
				t.Errorf("%d keys are left, want only the counter", n)
			}
		})
	}
}

// Two URLs of one server are one server: once the oldest rows have made room, the others stay.
func TestLookKeepsRowsOfAServerWithTwoAddresses(t *testing.T) {
	server := redistest.Single(t, "--maxmemory", "16mb", "--maxmemory-policy", "noeviction")
	client := server.Client()
	s, _ := newStore(t, Config{Rows: client, Counters: server.Client()})
	for n := range 60 {
		s.put(t, fmt.Sprint("account ", n%8), rowKey(n), 100<<10)
	}
	for n := 0; usedPercent(t, client) <= fullPercent; n += 100 {
		fill(t, client, n, n+100)
	}
	if err := s.lookAndSweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if percent := usedPercent(t, client); percent > fullPercent {
		t.Errorf("%d %% of the memory is used", percent)
	}
	if rows, known := len(present(t, client, keys(60)...)), client.HLen(t.Context(), indexKeys()[1]).Val(); rows == 0 || rows != int(known) {
		t.Errorf("%d rows are left, of %d in the index", rows, known)
	}
}

func TestWatchLooksEveryTenSecondsAndWhenAsked(t *testing.T) {
	server := redistest.Single(t)
	client := server.Client()
	looks := func() float64 {
		calls, err := client.Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(calls, "cmdstat_hget:calls=")
		n := 0.0
		_, _ = fmt.Sscan(strings.SplitN(line, ",", 2)[0], &n)
		return n
	}
	var passed atomic.Int64
	s, _ := newStore(t, Config{Rows: client, Now: func() time.Time { return time.Unix(1_800_000_000, passed.Load()) }})
	ctx, stop := context.WithCancel(t.Context())
	tick, done := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(done)
		s.Watch(ctx, tick)
	}()
	for _, test := range []struct {
		pass time.Duration
		want float64
	}{{0, 1}, {9 * time.Second, 1}, {time.Second, 2}, {time.Second, 2}} {
		passed.Add(int64(test.pass))
		tick <- time.Time{}
		tick <- time.Time{} // taken when the look is over
		if n := looks(); n != test.want {
			t.Errorf("%v later: %v looks, want %v", test.pass, n, test.want)
		}
	}
	s.Suspect()
	s.Suspect()
	for looks() < 3 { // each round trip is pause enough
	}
	stop()
	<-done
}

func TestAwayAfterTwoFailedLooks(t *testing.T) {
	server := redistest.Single(t)
	s, _ := newStore(t, Config{Rows: server.Client()})
	server.Kill()
	left, leave := context.WithCancel(t.Context())
	leave()
	for range 3 {
		_ = s.Relieve(left) // a caller that has left shows nothing
	}
	for n := range 2 {
		if s.Away() {
			t.Errorf("down after %d failed looks", n)
		}
		if s.Relieve(t.Context()) == nil {
			t.Error("a dead server answers")
		}
	}
	if !s.Away() {
		t.Error("not down after two failed looks")
	}
	server.Start()
	if err := s.Relieve(t.Context()); err != nil || s.Away() {
		t.Errorf("down after a look: %v", err)
	}
}

// A caller waits for another one's look no longer than its context lasts.
func TestRelieveEndsWithItsContext(t *testing.T) {
	client := redistest.Open(t, "redis://127.0.0.1")
	s, err := New(Config{Rows: client, Lifetime: lifetime})
	if err != nil {
		t.Fatal(err)
	}
	s.looking <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Relieve(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("during another look: %v", err)
	}
}
