package policy

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sara/policy/redisconn"
)

// testWaitsForLeases has a request wait until another replica's lease, which is in the way, is returned.
func testWaitsForLeases(t *testing.T, url string, control redisconn.Client) {
	a := startRedisBudget(t, url, redisOptions{patient: true})
	b := startRedisBudget(t, url, redisOptions{patient: true})
	plan := generousPlan()
	plan.RequestsPerMinutePerKey, plan.RequestsPerHour, plan.RequestsPerDay = 100_000, 1000, 100_000
	hot := make([]*admission, 100)
	for i := range hot {
		hot[i] = &admission{accountID: "leases", keyID: "key", plan: plan}
	}
	a.batcher.decide(hot)
	leased, err := control.HGet(t.Context(), accountKey("leases"), "ln").Int()
	if err != nil || leased == 0 {
		t.Fatalf("%d requests are leased: %v", leased, err)
	}
	rest := make([]*admission, 1000-100-leased+1)
	for i := range rest {
		rest[i] = &admission{accountID: "leases", keyID: "other", plan: plan}
	}
	b.batcher.decide(rest)
	if last := rest[len(rest)-1]; last.refusal == nil || !last.refusal.byLeases {
		t.Fatalf("the request after the last one is not refused for leases: %+v", last.refusal)
	}

	a.Usage("leases") // wakes a, which returns its lease when it is over
	for n := range leased {
		if usage, refusal := b.Admit("leases", "other", plan); refusal != nil || usage.RequestsThisHour != 1000-leased+n+1 {
			t.Fatalf("request %d of %d that were leased: %+v %+v", n+1, leased, usage, refusal)
		}
	}
	if _, refusal := b.Admit("leases", "other", plan); refusal == nil || refusal.Ceiling != AccountHour || refusal.byLeases {
		t.Errorf("the hour is used up, but: %+v", refusal)
	}
}

// If the other replica does not return its lease in time, the request is refused, and can be tried again soon.
func TestARequestDoesNotWaitForeverForLeases(t *testing.T) {
	w := newLeaseWorld(t, 2)
	w.plan.RequestsPerHour = 1000
	w.together(w.historyReplica, "key", 100)
	_, leased := w.counted()
	b := w.replicas[1]
	retries := make(chan time.Time)
	b.batcher.after = func(time.Duration) <-chan time.Time { return retries }
	w.together(b, "other", 1000-100-leased)
	refused := make(chan *Refusal)
	go func() {
		_, refusal := b.Admit("account", "other", w.plan)
		refused <- refusal
	}()
	for {
		select {
		case retries <- time.Time{}:
			w.clock.advance(patience / 10)
		case refusal := <-refused:
			if refusal == nil || refusal.Ceiling != AccountHour || refusal.RetryAfter <= 0 || refusal.RetryAfter > time.Second {
				t.Errorf("got %+v", refusal)
			}
			return
		}
	}
}

// A refusal for leases lasts no longer than its window.
func TestARefusalForLeasesEndsWithTheHour(t *testing.T) {
	w := newLeaseWorld(t, 2)
	w.plan.RequestsPerHour = 1000
	const left = 100 * time.Millisecond
	w.advance(hourOf(w.clock.now()).end().Sub(w.clock.now()) - left)
	w.together(w.replicas[0], "key", 100)
	_, leased := w.counted()
	a := w.together(w.replicas[1], "other", 1000-100-leased+1)
	if a.refusal == nil || !a.refusal.byLeases || a.refusal.RetryAfter != left {
		t.Errorf("got %+v", a.refusal)
	}
}

// testLeasesAreExact asks three replicas for more requests of a hot key than its account's hour has, as fast as they can.
func testLeasesAreExact(t *testing.T, url string, control redisconn.Client) {
	const clients, each, limit = 48, 100, 3000
	plan := generousPlan()
	plan.RequestsPerHour = limit
	var replicas [3]*testRedisBudget
	for i := range replicas {
		replicas[i] = startRedisBudget(t, url, redisOptions{patient: true})
	}
	var admitted atomic.Int64
	var done sync.WaitGroup
	for n := range clients {
		done.Go(func() {
			for range each {
				if _, refusal := replicas[n%3].Admit("hot", "key", plan); refusal == nil {
					admitted.Add(1)
				}
			}
		})
	}
	done.Wait()
	leased := 0.0
	for _, r := range replicas {
		leased += r.metric(t, "sara_budget_leased_requests_total")
	}
	counted, err := control.HGet(t.Context(), accountKey("hot"), "hn").Int()
	if n := admitted.Load(); n != limit || counted != limit || leased == 0 || err != nil {
		t.Errorf("%d of %d requests are admitted, %v of them from leases; Redis has counted %d, %v", n, limit, leased, counted, err)
	}
}
