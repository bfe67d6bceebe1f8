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

// slowestOf calls ask n times concurrently and returns how long the slowest call took.
func slowestOf(n int, ask func(i int)) time.Duration {
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

func (s *testRedisBudget) wantDegraded(t *testing.T, degraded bool, logged int) {
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

func TestRedisBudgetAdmitsItsShareWhileRedisIsDownAndSyncsLater(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{replicas: 2})
	ctx, plan := t.Context(), generousPlan()
	plan.RequestsPerDay, plan.SearchConsoleCallsPerDay, plan.LiveCallsPerMinutePerProperty = 100, 40, 40
	admitN(s, 5, "a", "k", plan)
	server.Kill()

	if admitted, refusal := admitN(s, 60, "a", "k", plan); admitted != 50 {
		t.Errorf("admitted %d, want a share of 50; then %+v", admitted, refusal)
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
		t.Errorf("%d calls, want half a share, 10", calls)
	}
	if usage := s.Usage(ctx, "a"); usage.RequestsToday != 50 || usage.CallsToday != 10 {
		t.Errorf("usage %+v", usage)
	}
	s.wantDegraded(t, true, 1)
	s.probeNow()
	s.wantDegraded(t, true, 1)

	server.Start()
	s.probeNow()
	s.wantDegraded(t, false, 2)
	if usage := s.Usage(ctx, "a"); usage.RequestsThisHour != 50 || usage.RequestsToday != 50 || usage.CallsToday != 10 {
		t.Errorf("usage %+v after the sync", usage)
	}
	if admitted, _ := admitN(s, 60, "a", "k", plan); admitted != 50 {
		t.Errorf("admitted %d of the other 50", admitted)
	}

	// A second outage in the same window must not grant the share again.
	server.Kill()
	if admitted, _ := admitN(s, 10, "a", "k", plan); admitted != 0 {
		t.Errorf("admitted %d although the first outage used up the share of the day", admitted)
	}
}

func TestChargedMinuteIsTheReplicasShareWhileRedisIsDown(t *testing.T) {
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{replicas: 2})
	admitN(s, 1, "a", "k", generousPlan())
	server.Kill()
	passed := 0
	for range 40 {
		if _, refusal := s.ChargeMinute(t.Context(), "a", "trial", Plan{}); refusal == nil {
			passed++
		}
	}
	s.wantDegraded(t, true, 1)
	if passed < 30 || passed > 31 { // a token comes back every two seconds
		t.Errorf("%d of 40 passed, want the share of 30", passed)
	}
	if usage := s.Usage(t.Context(), "a"); usage.RequestsToday != 0 {
		t.Errorf("usage %+v", usage)
	}
}

func TestRedisBudgetRefusesNothingWhileRedisRestarts(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{})
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
	restarts := 3
	if testing.Short() {
		restarts = 1
	}
	for range restarts {
		server.Kill()
		for !s.Degraded() {
			runtime.Gosched()
		}
		server.Start()
		for s.Degraded() {
			s.probeNow()
		}
	}
	close(stop)
	load.Wait()
	refused.Range(func(ceiling, _ any) bool {
		t.Errorf("refused by ceiling %v", ceiling)
		return true
	})
	s.wantDegraded(t, false, 2*restarts)
}

func TestFrozenRedisDelaysRequestsOnceAndCountsThemOnce(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{})
	ctx := t.Context()
	admitN(s, 7, "a", "k", generousPlan())
	_ = s.ChargeLiveCalls(ctx, "a", "p", 1, generousPlan())
	server.Freeze()
	took := slowestOf(200, func(i int) {
		var refusal *Refusal
		if i%10 == 0 {
			refusal = s.ChargeLiveCalls(ctx, "a", "p", 2, generousPlan())
		} else {
			_, refusal = s.Admit(ctx, "a", "k", generousPlan())
		}
		if refusal != nil {
			t.Errorf("refused: %+v", refusal)
		}
	})
	t.Logf("the slowest of 200 requests took %v", took)
	if took > time.Second {
		t.Errorf("the slowest of 200 requests took %v", took)
	}
	s.wantDegraded(t, true, 1)
	server.Thaw()
	s.probeNow()
	s.wantDegraded(t, false, 2)
	// The commands that Redis found in its buffers after the thaw had expired: the requests were decided locally, and count once.
	if usage := s.Usage(ctx, "a"); usage.RequestsThisHour != 187 || usage.RequestsToday != 187 || usage.CallsToday != 41 {
		t.Errorf("usage %+v, want 187 requests and 41 calls", usage)
	}
}

func TestRefundsWhileRedisIsDownCountOnce(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{})
	ctx, plan := t.Context(), generousPlan()
	_ = s.ChargeLiveCalls(ctx, "a", "p", 5, plan)
	today := s.Usage(ctx, "a").At
	server.Freeze()
	s.RefundLiveCalls(ctx, "a", 1, today) // opens the circuit
	s.RefundLiveCalls(ctx, "a", 1, today)
	s.RefundLiveCalls(ctx, "a", 1, today.Add(-24*time.Hour))
	s.wantDegraded(t, true, 1)
	server.Thaw()
	s.probeNow()
	s.wantDegraded(t, false, 2)
	if usage := s.Usage(ctx, "a"); usage.CallsToday != 3 {
		t.Errorf("usage %+v, want 3 calls", usage)
	}
	s.probeNow()
	if usage := s.Usage(ctx, "a"); usage.CallsToday != 3 {
		t.Errorf("after another probe: usage %+v, want 3 calls", usage)
	}
}

func TestWrongRedisPasswordIsAnOutageAndStaysOutOfTheLog(t *testing.T) {
	server := redistest.Single(t, "--requirepass", "right")
	s := startRedisBudget(t, strings.Replace(server.URL(), "://", "://:wrong-secret@", 1), redisOptions{})
	if admitted, refusal := admitN(s, 10, "a", "k", generousPlan()); admitted != 10 {
		t.Errorf("admitted %d, then %+v", admitted, refusal)
	}
	s.probeNow()
	s.wantDegraded(t, true, 1)
	if text := strings.Join(s.log.lines(), ""); strings.Contains(text, "wrong-secret") {
		t.Errorf("the log holds the password: %s", text)
	}
}

func TestScriptIsSentAgainAfterRedisLosesIt(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{})
	ctx, control := t.Context(), server.Client()
	for i := range 3 {
		if err := control.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if usage, refusal := s.Admit(ctx, "a", "k", generousPlan()); refusal != nil || usage.RequestsToday != i+1 {
			t.Errorf("request %d: %+v, %+v", i+1, usage, refusal)
		}
		if err := control.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if refusal := s.ChargeLiveCalls(ctx, "a", "p", 1, generousPlan()); refusal != nil {
			t.Errorf("charge %d: %+v", i+1, refusal)
		}
	}
	if err := control.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if usage, refusal := s.Admit(ctx, "a", "k", generousPlan()); refusal != nil || usage.RequestsToday != 1 {
		t.Errorf("after FLUSHALL: %+v, %+v", usage, refusal)
	}
	s.wantDegraded(t, false, 0)
}

func TestClusterIsDownWhileANodeIsMissing(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster takes two seconds to start, and again to recover")
	}
	t.Parallel()
	avoidHourEnd(t)
	cluster := redistest.Cluster(t)
	s := startRedisBudget(t, cluster.URL(), redisOptions{patient: true})
	accounts := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	admitAll := func(n int) {
		t.Helper()
		for _, account := range accounts {
			if admitted, refusal := admitN(s, n, account, account, generousPlan()); admitted != n {
				t.Errorf("account %s: admitted %d of %d, then %+v", account, admitted, n, refusal)
			}
		}
	}
	admitAll(2)
	cluster.Nodes[1].Stop()
	admitAll(3)
	s.wantDegraded(t, true, 1)
	s.probeNow()
	s.probeNow()
	s.wantDegraded(t, true, 1)
	cluster.Nodes[1].Start()
	begun := time.Now()
	for s.Degraded() && time.Since(begun) < patience {
		s.probeNow()
	}
	s.probeNow()
	t.Logf("the circuit closed %v after the node was back", time.Since(begun))
	s.wantDegraded(t, false, 2)
	for _, account := range accounts {
		if usage := s.Usage(t.Context(), account); usage.RequestsToday != 5 {
			t.Errorf("account %s has %+v, want 5 requests", account, usage)
		}
	}
}

func TestCloseStopsAllGoroutines(t *testing.T) {
	server := redistest.Single(t)
	before := runtime.NumGoroutine()
	client, err := OpenRedis(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	s := newTestRedisBudget(t, client, redisOptions{}, make(chan time.Time))
	admitN(s, 10, "a", "k", generousPlan())
	server.Kill()
	admitN(s, 10, "a", "k", generousPlan())
	s.Close()
	_ = client.Close()
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
	}
}
