package policy

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

// Requests that find the circuit open let the fallback decide. It must not divide what was left when an earlier outage began.
func TestOutageBeginsBeforeTheFallbackDecides(t *testing.T) {
	s := startRedisBudget(t, redistest.Single(t).URL(), redisOptions{replicas: 2})
	s.fallback.mu.Lock() // the outage cannot begin
	var opened sync.WaitGroup
	opened.Go(func() { s.redisDown(errRedisDown) })
	for range 10_000 {
		runtime.Gosched()
	}
	if s.Degraded() {
		t.Error("the fallback decides before the outage has begun")
	}
	s.fallback.mu.Unlock()
	opened.Wait()
	s.wantDegraded(t, true, 1)
}

// Of several replicas, one uses Redis again after some ticks in a row in which it answers: by then all have added what they admitted. A
// single replica has nothing to wait for.
func TestReplicaRejoinsAfterTicksInARow(t *testing.T) {
	server := redistest.Single(t)
	check := func(s *testRedisBudget, ticks int, wantDown bool) {
		t.Helper()
		for range ticks {
			s.check(t.Context())
		}
		if s.Degraded() != wantDown {
			t.Errorf("down: %v, want %v", s.Degraded(), wantDown)
		}
	}
	s := startRedisBudget(t, server.URL(), redisOptions{replicas: 2})
	for range 2 { // the second outage is like the first
		s.redisDown(errRedisDown)
		check(s, rejoinTicks-1, true)
		check(s, 1, false)
	}
	s.redisDown(errRedisDown)
	check(s, rejoinTicks-1, true)
	server.Stop()
	check(s, 1, true)
	server.Start()
	check(s, rejoinTicks-1, true)
	check(s, 1, false)

	alone := startRedisBudget(t, redistest.Single(t).URL(), redisOptions{})
	alone.redisDown(errRedisDown)
	check(alone, 1, false)
}

func TestEachUseOfRedisNoticesThatItIsDown(t *testing.T) {
	server := redistest.Single(t)
	server.Kill()
	for name, use := range map[string]func(b Budget){
		"a request":      func(b Budget) { _, _ = b.Admit("a", "k", generousPlan()) },
		"a minute":       func(b Budget) { _, _ = b.ChargeMinute("a", "k", generousPlan()) },
		"the usage":      func(b Budget) { b.Usage("a") },
		"live calls":     func(b Budget) { _ = b.ChargeLiveCalls("a", "p", 1, generousPlan()) },
		"returned calls": func(b Budget) { b.RefundLiveCalls("a", 1, time.Now()) },
	} {
		s := newTestRedisBudget(t, server.Client(), redisOptions{}, nil)
		if use(s); !s.Degraded() {
			t.Errorf("%s: the outage is not noticed", name)
		}
		s.Close()
	}
}

// The end of an outage does not refill the minute of a key.
func TestMinuteOfAKeyOutlastsAnOutage(t *testing.T) {
	avoidHourEnd(t)
	s := startRedisBudget(t, redistest.Single(t).URL(), redisOptions{patient: true})
	plan := generousPlan()
	plan.RequestsPerMinutePerKey = 3
	admitted, _ := admitN(s, 1, "a", "k", plan)
	s.redisDown(errRedisDown)
	more, _ := admitN(s, 5, "a", "k", plan)
	s.check(t.Context())
	s.wantDegraded(t, false, 2)
	last, refusal := admitN(s, 5, "a", "k", plan)
	if admitted+more+last != 3 {
		t.Errorf("admitted %d, %d during the outage, and %d after it, of 3", admitted, more, last)
	}
	wantRefusal(t, refusal, KeyMinute, 3, time.Minute/3)
}

// A check that Close ends shows nothing about Redis: the last counts still have to reach it.
func TestCheckThatIsStoppedIsNoOutage(t *testing.T) {
	s := startRedisBudget(t, redistest.Single(t).URL(), redisOptions{})
	stopped, stop := context.WithCancel(t.Context())
	stop()
	s.check(stopped)
	s.wantDegraded(t, false, 0)
}

// A request that the fallback was still deciding when the circuit closed is added to Redis later. If Redis goes away again before that, and
// the replica ends without noticing, the store keeps it.
func TestCountsThatCloseCannotBringToRedisAreStored(t *testing.T) {
	server := redistest.Single(t)
	client, err := redisconn.Open(server.URL(), redisconn.StepTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	s := newTestRedisBudget(t, client, redisOptions{}, make(chan time.Time))
	store := &fakeReplicaStore{stored: map[string]ReplicaUsage{}}
	s.shares.store = store
	if _, refusal := s.fallback.Admit("a", "k", generousPlan()); refusal != nil {
		t.Fatalf("refused: %+v", refusal)
	}
	server.Kill()
	s.Close()
	if len(store.stored) != 1 {
		t.Fatalf("%d counts are stored, want 1", len(store.stored))
	}
	for _, u := range store.stored {
		if u.Used.AccountID != "a" || u.Local.InDay != 1 {
			t.Errorf("stored: %+v", u)
		}
	}
}

// While Redis is down, replicas store what they admit, so that one that starts then knows it.
func TestReplicaThatStartsDuringAnOutageKnowsWhatOthersAdmitted(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	server.Kill()
	store := &fakeReplicaStore{stored: map[string]ReplicaUsage{}}
	start := func() *testRedisBudget {
		s := newTestRedisBudget(t, server.Client(), redisOptions{replicas: 3}, nil)
		s.shares.store, s.config.Store = store, store
		if err := s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for i := range 3 { // each after the one before
		s := start()
		usage := s.Usage("a")
		if usage.RequestsThisHour != 3*i || usage.RequestsToday != 3*i || usage.CallsToday != 2*i {
			t.Errorf("replica %d starts with the usage %+v", i, usage)
		}
		admitN(s, 3, "a", "k", generousPlan())
		_ = s.ChargeLiveCalls("a", "p", 2, generousPlan())
		s.check(t.Context())
		defer s.Close()
	}
}

// What was admitted beyond a limit is reported once, however often Redis loses its counts.
func TestOverrunIsReportedOnceAfterSeveralLosses(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	plan := generousPlan()
	plan.RequestsPerHour, plan.RequestsPerDay, plan.SearchConsoleCallsPerDay, plan.LiveCallsPerMinutePerProperty = 10, 10, 10, 100
	replicas := []*testRedisBudget{startRedisBudget(t, server.URL(), redisOptions{patient: true}),
		startRedisBudget(t, server.URL(), redisOptions{patient: true})}
	flush := func() {
		t.Helper()
		if err := server.Client().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range replicas {
		flush()
		for range 6 {
			_, request := r.Admit("a", "k", plan)
			if call := r.ChargeLiveCalls("a", "p", 1, plan); request != nil || call != nil {
				t.Fatalf("refused: %+v, %+v", request, call)
			}
		}
	}
	for loss := range 3 {
		for _, r := range replicas {
			r.Usage("a")
			r.check(t.Context())
		}
		for _, limit := range overLimits[:3] {
			counted := 0.0
			for _, r := range replicas {
				counted += counterOf(t, r.registry, "sara_overadmitted_total", limit)
			}
			if counted != 2 {
				t.Errorf("loss %d: %v are reported beyond the limit %s, want 2", loss, counted, limit)
			}
		}
		flush()
	}
}
