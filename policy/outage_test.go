package policy

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/policy/redisconn"
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
	plan := generousPlan()
	plan.RequestsPerDay, plan.SearchConsoleCallsPerDay, plan.LiveCallsPerMinutePerProperty = 100, 40, 40
	admitN(s, 5, "a", "k", plan)
	server.Kill()

	if admitted, refusal := admitN(s, 60, "a", "k", plan); admitted != 47 {
		t.Errorf("admitted %d, want half of the 95 that were left; then %+v", admitted, refusal)
	} else if wantRefusal(t, refusal, AccountDay, 100, worthAnotherTry); !refusal.ByShare || refusal.Share != 47 {
		t.Errorf("the refusal %+v is not by a share of 47", refusal)
	}
	calls := 0
	for range 20 {
		if s.ChargeLiveCalls("a", "p", 1, plan) == nil {
			calls++
		}
	}
	if calls != 10 {
		t.Errorf("%d calls, want half a share, 10", calls)
	}
	if usage := s.Usage("a"); usage.RequestsToday != 52 || usage.CallsToday != 10 {
		t.Errorf("usage %+v", usage)
	}
	s.wantDegraded(t, true, 1)
	s.probeNow()
	s.wantDegraded(t, true, 1)

	server.Start() // without its data
	s.probeNow()
	s.wantDegraded(t, false, 3) // Redis is back, and had lost counts
	if usage := s.Usage("a"); usage.RequestsThisHour != 52 || usage.RequestsToday != 52 || usage.CallsToday != 10 {
		t.Errorf("usage %+v after the sync", usage)
	}
	if restored := s.metric(t, "sara_budget_restored_total"); restored != 5 {
		t.Errorf("%v requests were restored, want the 5 from before the outage", restored)
	}
	if admitted, _ := admitN(s, 60, "a", "k", plan); admitted != 48 {
		t.Errorf("admitted %d of the other 48", admitted)
	}

	// A second outage in the same window must not grant more.
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
		if _, refusal := s.ChargeMinute("a", "trial", Plan{}); refusal == nil {
			passed++
		}
	}
	s.wantDegraded(t, true, 1)
	if passed < 30 || passed > 31 { // a token comes back every two seconds
		t.Errorf("%d of 40 passed, want the share of 30", passed)
	}
	if usage := s.Usage("a"); usage.RequestsToday != 1 {
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
				if _, refusal := s.Admit("a", "k", plan); refusal != nil {
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
	// One more line, if Redis had counted any when it was killed: a restart loses them, and lines about losses are a minute apart.
	if lines := len(s.log.lines()); s.Degraded() || lines < 2*restarts || lines > 2*restarts+1 {
		t.Errorf("degraded %v, logged %q", s.Degraded(), s.log.lines())
	}
}

func TestFrozenRedisDelaysRequestsOnceAndCountsThemOnce(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{})
	admitN(s, 7, "a", "k", generousPlan())
	_ = s.ChargeLiveCalls("a", "p", 1, generousPlan())
	server.Freeze()
	took := slowestOf(200, func(i int) {
		var refusal *Refusal
		if i%10 == 0 {
			refusal = s.ChargeLiveCalls("a", "p", 2, generousPlan())
		} else {
			_, refusal = s.Admit("a", "k", generousPlan())
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
	if usage := s.Usage("a"); usage.RequestsThisHour != 187 || usage.RequestsToday != 187 || usage.CallsToday != 41 {
		t.Errorf("usage %+v, want 187 requests and 41 calls", usage)
	}
}

func TestRefundsWhileRedisIsDownCountOnce(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{})
	plan := generousPlan()
	_ = s.ChargeLiveCalls("a", "p", 5, plan)
	today := s.Usage("a").At
	server.Freeze()
	s.RefundLiveCalls("a", 1, today) // opens the circuit
	s.RefundLiveCalls("a", 1, today)
	s.RefundLiveCalls("a", 1, today.Add(-24*time.Hour))
	s.wantDegraded(t, true, 1)
	server.Thaw()
	s.probeNow()
	s.wantDegraded(t, false, 2)
	if usage := s.Usage("a"); usage.CallsToday != 3 {
		t.Errorf("usage %+v, want 3 calls", usage)
	}
	s.probeNow()
	if usage := s.Usage("a"); usage.CallsToday != 3 {
		t.Errorf("after another probe: usage %+v, want 3 calls", usage)
	}
}

func TestWrongRedisPasswordIsAnOutageWithThatReasonAndStaysOutOfTheLog(t *testing.T) {
	server := redistest.Single(t, "--requirepass", "right")
	s := startRedisBudget(t, strings.Replace(server.URL(), "://", "://:wrong-secret@", 1), redisOptions{})
	if admitted, refusal := admitN(s, 10, "a", "k", generousPlan()); admitted != 10 {
		t.Errorf("admitted %d, then %+v", admitted, refusal)
	}
	s.probeNow()
	s.wantDegraded(t, true, 1)
	text := strings.Join(s.log.lines(), "")
	if !strings.Contains(text, "Redis is down") || !strings.Contains(text, "WRONGPASS") {
		t.Errorf("the log does not say what is wrong: %s", text)
	}
	if strings.Contains(text, "wrong-secret") {
		t.Errorf("the log holds the password: %s", text)
	}
}

func TestScriptIsSentAgainAfterRedisLosesIt(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	ctx, control := t.Context(), server.Client()
	for i := range 3 {
		if err := control.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if usage, refusal := s.Admit("a", "k", generousPlan()); refusal != nil || usage.RequestsToday != i+1 {
			t.Errorf("request %d: %+v, %+v", i+1, usage, refusal)
		}
		if err := control.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if refusal := s.ChargeLiveCalls("a", "p", 1, generousPlan()); refusal != nil {
			t.Errorf("charge %d: %+v", i+1, refusal)
		}
	}
	if err := control.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if usage, refusal := s.Admit("a", "k", generousPlan()); refusal != nil || usage.RequestsToday != 4 || usage.CallsToday != 3 {
		t.Errorf("after FLUSHALL: %+v, %+v", usage, refusal)
	}
	s.wantDegraded(t, false, 0)
}

func TestClusterIsDownWhileANodeIsMissing(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	avoidHourEnd(t)
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
		if usage := s.Usage(account); usage.RequestsToday != 5 {
			t.Errorf("account %s has %+v, want 5 requests", account, usage)
		}
	}
}

func TestCloseStopsAllGoroutines(t *testing.T) {
	server := redistest.Single(t)
	before := runtime.NumGoroutine()
	client, err := redisconn.Open(server.URL(), redisconn.StepTimeout)
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
