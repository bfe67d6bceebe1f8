package policy

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/policy/redistest"
)

// slowest asks n times at once and returns how long the slowest had to wait.
func slowest(n int, ask func(i int)) time.Duration {
	var mu sync.Mutex
	var most time.Duration
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() {
			begun := time.Now()
			ask(i)
			mu.Lock()
			defer mu.Unlock()
			most = max(most, time.Since(begun))
		})
	}
	done.Wait()
	return most
}

func (s *testShared) wantState(t *testing.T, degraded bool, logged int) {
	t.Helper()
	gauge := 0.0
	if degraded {
		gauge = 1
	}
	if got := s.metric(t, "sara_budget_degraded"); s.Degraded() != degraded || got != gauge {
		t.Errorf("degraded %v, metric %v, want %v", s.Degraded(), got, degraded)
	}
	if lines := s.log.lines(); len(lines) != logged {
		t.Errorf("logged %d lines, want %d: %q", len(lines), logged, lines)
	}
}

func TestAKilledRedisCostsNobodyTheirShareAndIsGivenTheCounts(t *testing.T) {
	awayFromTheHour(t)
	server := redistest.Single(t)
	s := startShared(t, server.URL(), sharedOptions{replicas: 2})
	ctx, plan := t.Context(), ample()
	plan.RequestsPerDay, plan.SearchConsoleCallsPerDay, plan.LiveCallsPerMinutePerProperty = 100, 40, 40
	admitN(s, 5, "a", "k", plan)
	server.Kill()

	if admitted, refusal := admitN(s, 60, "a", "k", plan); admitted != 50 {
		t.Errorf("admitted %d of a share of 50, then %+v", admitted, refusal)
	} else {
		wantRefusal(t, refusal, AccountDay, 100, 24*time.Hour)
	}
	calls := 0
	for range 20 {
		if s.ChargeLiveCalls(ctx, "a", "p", 1, plan) == nil {
			calls++
		}
	}
	if calls != 10 {
		t.Errorf("%d calls of half a share, 10", calls)
	}
	if usage := s.Usage(ctx, "a"); usage.RequestsToday != 50 || usage.CallsToday != 10 {
		t.Errorf("usage %+v", usage)
	}
	s.wantState(t, true, 1)
	s.look()
	s.wantState(t, true, 1)

	server.Start()
	s.look()
	s.wantState(t, false, 2)
	if usage := s.Usage(ctx, "a"); usage.RequestsThisHour != 50 || usage.RequestsToday != 50 || usage.CallsToday != 10 {
		t.Errorf("Redis was given %+v", usage)
	}
	if admitted, _ := admitN(s, 60, "a", "k", plan); admitted != 50 {
		t.Errorf("admitted %d of the other 50", admitted)
	}

	// Another outage in the same window finds the share given out, or every outage would give out another.
	server.Kill()
	if admitted, _ := admitN(s, 10, "a", "k", plan); admitted != 0 {
		t.Errorf("admitted %d although the share of the day was used in the outage before", admitted)
	}
}

func TestRequestsGoOnWhileRedisIsKilledAndStarted(t *testing.T) {
	awayFromTheHour(t)
	server := redistest.Single(t)
	s := startShared(t, server.URL(), sharedOptions{})
	const endless = 1_000_000_000
	plan := Plan{RequestsPerMinutePerKey: endless, RequestsPerHour: endless, RequestsPerDay: endless}
	stop := make(chan struct{})
	var load sync.WaitGroup
	var refused sync.Map
	for range 16 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, refusal := s.Admit(context.Background(), "a", "k", plan); refusal != nil {
					refused.Store(refusal.Ceiling, true)
				}
			}
		})
	}
	for range 3 {
		server.Kill()
		for !s.Degraded() {
			runtime.Gosched()
		}
		server.Start()
		for s.Degraded() {
			s.look()
		}
	}
	close(stop)
	load.Wait()
	refused.Range(func(ceiling, _ any) bool {
		t.Errorf("refused by ceiling %v", ceiling)
		return true
	})
	s.wantState(t, false, 6)
}

func TestAFrozenRedisDelaysRequestsOnceAndCountsThemOnce(t *testing.T) {
	awayFromTheHour(t)
	server := redistest.Single(t)
	s := startShared(t, server.URL(), sharedOptions{})
	ctx := t.Context()
	admitN(s, 7, "a", "k", ample())
	_ = s.ChargeLiveCalls(ctx, "a", "p", 1, ample())
	server.Freeze()
	took := slowest(200, func(i int) {
		var refusal *Refusal
		if i%10 == 0 {
			refusal = s.ChargeLiveCalls(ctx, "a", "p", 2, ample())
		} else {
			_, refusal = s.Admit(ctx, "a", "k", ample())
		}
		if refusal != nil {
			t.Errorf("refused: %+v", refusal)
		}
	})
	t.Logf("the slowest of 200 requests waited %v", took)
	if took > time.Second {
		t.Errorf("the slowest of 200 requests waited %v", took)
	}
	s.wantState(t, true, 1)
	server.Thaw()
	s.look()
	s.wantState(t, false, 2)
	// What Redis found in its buffers when it was thawed was decided locally by then, and counts once.
	if usage := s.Usage(ctx, "a"); usage.RequestsThisHour != 187 || usage.RequestsToday != 187 || usage.CallsToday != 41 {
		t.Errorf("usage %+v, want 187 requests and 41 calls", usage)
	}
}

func TestCallsGivenBackWhileRedisIsAwayAreGivenBackOnce(t *testing.T) {
	awayFromTheHour(t)
	server := redistest.Single(t)
	s := startShared(t, server.URL(), sharedOptions{})
	ctx, plan := t.Context(), ample()
	_ = s.ChargeLiveCalls(ctx, "a", "p", 5, plan)
	today := s.Usage(ctx, "a").At
	server.Freeze()
	s.RefundLiveCalls(ctx, "a", 1, today) // finds out
	s.RefundLiveCalls(ctx, "a", 1, today)
	s.RefundLiveCalls(ctx, "a", 1, today.Add(-24*time.Hour))
	s.wantState(t, true, 1)
	server.Thaw()
	s.look()
	s.wantState(t, false, 2)
	if usage := s.Usage(ctx, "a"); usage.CallsToday != 3 {
		t.Errorf("usage %+v, want 3 calls", usage)
	}
	s.look()
	if usage := s.Usage(ctx, "a"); usage.CallsToday != 3 {
		t.Errorf("another look: usage %+v, want 3 calls", usage)
	}
}

func TestAWrongPasswordLeavesTheLocalShareAndNoSecretInTheLog(t *testing.T) {
	server := redistest.Single(t, "--requirepass", "right")
	s := startShared(t, strings.Replace(server.URL(), "://", "://:wrong-secret@", 1), sharedOptions{})
	if admitted, refusal := admitN(s, 10, "a", "k", ample()); admitted != 10 {
		t.Errorf("admitted %d, then %+v", admitted, refusal)
	}
	s.look()
	s.wantState(t, true, 1)
	if text := strings.Join(s.log.lines(), ""); strings.Contains(text, "wrong-secret") {
		t.Errorf("the log holds the password: %s", text)
	}
}

func TestALostScriptIsSentAgain(t *testing.T) {
	awayFromTheHour(t)
	server := redistest.Single(t)
	s := startShared(t, server.URL(), sharedOptions{})
	ctx, control := t.Context(), server.Client()
	for i := range 3 {
		if err := control.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if usage, refusal := s.Admit(ctx, "a", "k", ample()); refusal != nil || usage.RequestsToday != i+1 {
			t.Errorf("request %d: %+v, %+v", i+1, usage, refusal)
		}
		if err := control.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if refusal := s.ChargeLiveCalls(ctx, "a", "p", 1, ample()); refusal != nil {
			t.Errorf("charge %d: %+v", i+1, refusal)
		}
	}
	if err := control.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if usage, refusal := s.Admit(ctx, "a", "k", ample()); refusal != nil || usage.RequestsToday != 1 {
		t.Errorf("after FLUSHALL: %+v, %+v", usage, refusal)
	}
	s.wantState(t, false, 0)
}

func TestAClusterThatLosesANodeIsAwayUntilItIsWholeAgain(t *testing.T) {
	awayFromTheHour(t)
	cluster := redistest.Cluster(t)
	s := startShared(t, cluster.URL(), sharedOptions{})
	accounts := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	admitAll := func(n int) {
		t.Helper()
		for _, account := range accounts {
			if admitted, refusal := admitN(s, n, account, account, ample()); admitted != n {
				t.Errorf("account %s: admitted %d of %d, then %+v", account, admitted, n, refusal)
			}
		}
	}
	admitAll(2)
	cluster.Nodes[1].Stop()
	admitAll(3)
	s.wantState(t, true, 1)
	s.look()
	s.look()
	s.wantState(t, true, 1)
	cluster.Nodes[1].Start()
	begun := time.Now()
	for s.Degraded() && time.Since(begun) < patience {
		s.look()
	}
	s.look()
	t.Logf("back in use %v after the node", time.Since(begun))
	s.wantState(t, false, 2)
	for _, account := range accounts {
		if usage := s.Usage(t.Context(), account); usage.RequestsToday != 5 {
			t.Errorf("account %s has %+v, want 5 requests", account, usage)
		}
	}
}

func TestNothingRunsAfterClose(t *testing.T) {
	server := redistest.Single(t)
	before := runtime.NumGoroutine()
	client, err := OpenRedis(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	s := startSharedOn(t, client, sharedOptions{}, make(chan time.Time))
	admitN(s, 10, "a", "k", ample())
	server.Kill()
	admitN(s, 10, "a", "k", ample())
	s.Close()
	_ = client.Close()
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
	}
}
