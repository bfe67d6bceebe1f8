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
