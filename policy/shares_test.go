package policy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sara/policy/redistest"
)

// A refusal by a share says so: the client is within its plan.
func TestRefusalByAShareNamesTheShare(t *testing.T) {
	clock, plan := noon(), generousPlan()
	plan.RequestsPerMinutePerKey, plan.RequestsPerDay = 60, 1000
	budget := newMemoryBudget(clock.now, func() int { return 3 }, 2)
	admitted, refusal := admitN(budget, 32, "a", "k", plan)
	if admitted != 20 {
		t.Errorf("admitted %d, want a third of 60", admitted)
	}
	const minute = "this replica's share of the key's 60 requests a minute, 20, is used up: " +
		"the counters that replicas share are unavailable; try again in 3 seconds"
	if d := newRefusalTexts().denial(refusal); d.Code != CodeRateLimited || d.Message != minute || d.RetryAfter != 3*time.Second {
		t.Errorf("denied with %+v", d)
	}
	budget.know(UsageCount{AccountID: "b", Hour: int64(hourOf(clock.now())), Day: hourOf(clock.now()).day(), InDay: 994})
	budget.beginOutage()
	plan.RequestsPerMinutePerKey = 100_000
	admitted, refusal = admitN(budget, 10, "b", "k2", plan)
	const day = "this replica's share of the account's 1000 requests a day, 2, is used up: " +
		"the counters that replicas share are unavailable; try again in 60 seconds"
	if d := newRefusalTexts().denial(refusal); admitted != 2 || d.Code != CodeQuotaExceeded || d.Message != day {
		t.Errorf("admitted %d of the 6 that were left, denied with %+v", admitted, d)
	}
}

// What is left of a day decides what a client is told: the end of the day if all is used up, otherwise that another replica may admit it.
func TestSharesOfWhatIsLeft(t *testing.T) {
	for _, c := range []struct {
		seenHour, seenDay int // of 100 and 1000
		admitted          int
		ceiling           Ceiling
		byShare           bool
	}{
		{0, 994, 2, AccountDay, true},
		{0, 998, 0, AccountDay, true},
		{0, 999, 0, AccountDay, true},
		{0, 1000, 0, AccountDay, false},
		{0, 1001, 0, AccountDay, false},
		{94, 0, 2, AccountHour, true},
		{100, 999, 0, AccountHour, false}, // the hour lasts longer than the minute after which another replica may admit it
		{100, 1000, 0, AccountDay, false},
	} {
		clock, plan := noon(), generousPlan()
		plan.RequestsPerHour, plan.RequestsPerDay = 100, 1000
		budget := newMemoryBudget(clock.now, func() int { return 3 }, 2)
		now := hourOf(clock.now())
		budget.know(UsageCount{AccountID: "a", Hour: int64(now), Day: now.day(), InHour: c.seenHour, InDay: c.seenDay})
		budget.beginOutage()
		admitted, refusal := admitN(budget, 10, "a", "k", plan)
		if admitted != c.admitted || refusal.Ceiling != c.ceiling || refusal.ByShare != c.byShare {
			t.Errorf("after %d requests of the hour and %d of the day: admitted %d, then %+v", c.seenHour, c.seenDay, admitted, refusal)
		}
		if byShare := refusal.RetryAfter == worthAnotherTry; byShare != c.byShare {
			t.Errorf("after %d requests of the hour and %d of the day: try again in %v", c.seenHour, c.seenDay, refusal.RetryAfter)
		}
		clock.advance(now.end().Sub(clock.now()))
		if admitted, _ = admitN(budget, 50, "a", "k", plan); c.seenDay == 0 && admitted != 33 {
			t.Errorf("in the next hour: admitted %d of a third of 100", admitted)
		}
	}
}

// A returned call makes no room while more are charged than a limit that was lowered since.
func TestReturnedCallMakesNoRoomBeyondALoweredLimit(t *testing.T) {
	clock, plan := noon(), generousPlan()
	plan.SearchConsoleCallsPerDay = 10
	budget := NewMemoryBudget(clock.now)
	now := hourOf(clock.now())
	budget.know(UsageCount{AccountID: "a", Hour: int64(now), Day: now.day(), Calls: 12})
	budget.beginOutage()
	for range 2 {
		budget.RefundLiveCalls("a", 1, clock.now())
		wantRefusal(t, budget.ChargeLiveCalls("a", "p", 1, plan), AccountCalls, 10, 24*time.Hour)
	}
	budget.RefundLiveCalls("a", 1, clock.now())
	if refusal := budget.ChargeLiveCalls("a", "p", 1, plan); refusal != nil {
		t.Errorf("the tenth call of ten: %+v", refusal)
	}
}

// A key with fewer requests a minute than there are replicas is not locked out.
func TestEachShareOfAMinuteHasARequest(t *testing.T) {
	plan := generousPlan()
	plan.RequestsPerMinutePerKey = 2
	budget := newMemoryBudget(noon().now, func() int { return 3 }, 2)
	if admitted, refusal := admitN(budget, 3, "a", "k", plan); admitted != 1 || !refusal.ByShare || refusal.Share != 1 {
		t.Errorf("admitted %d, then %+v", admitted, refusal)
	}
}

// A slowStore is a store of which a transaction with more than a tick's accounts does not end in time, and which counts the accounts.
type slowStore struct {
	fakeReplicaStore
	saved int
}

func (s *slowStore) SaveReplicaUsage(ctx context.Context, usage []ReplicaUsage) ([]ReplicaUsage, error) {
	if len(usage) > storeBatch {
		return nil, context.DeadlineExceeded
	}
	s.saved += len(usage)
	return s.fakeReplicaStore.SaveReplicaUsage(ctx, usage)
}

// A replica that ends stores all accounts, however many there are, but no more than the store lacks: others may have brought some of what it
// has stored to Redis, which may have lost it again.
func TestReplicaThatEndsStoresManyAccounts(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	server.Kill()
	const accounts, gone = 2*storeBatch + 100, storeBatch + 1
	store := &slowStore{fakeReplicaStore: fakeReplicaStore{stored: map[string]ReplicaUsage{}}}
	s := newTestRedisBudget(t, server.Client(), redisOptions{replicas: 3}, make(chan time.Time))
	s.shares.store = store
	s.redisDown(errRedisDown)
	for n := range accounts {
		admitN(s, 3, fmt.Sprint(n), "k", generousPlan())
	}
	for range 3 {
		s.check(t.Context())
	}
	if len(store.stored) != accounts || store.saved != accounts {
		t.Fatalf("%d accounts are stored in %d rows, want %d", len(store.stored), store.saved, accounts)
	}
	for n := range gone {
		delete(store.stored, s.replica+fmt.Sprint(n))
	}
	admitN(s, 1, "more", "k", generousPlan())
	s.Close()
	if len(store.stored) != accounts+1 || store.saved != accounts+1+gone {
		t.Errorf("%d accounts are stored in %d rows, want %d in %d", len(store.stored), store.saved, accounts+1, accounts+1+gone)
	}
	for n := range accounts {
		want := 3
		if n < gone {
			want = 0
		}
		if u := store.stored[s.replica+fmt.Sprint(n)]; u.Used.InDay != 3 || u.Local.InDay != want {
			t.Fatalf("account %d: %+v, want 3 requests, %d of them local", n, u, want)
		}
	}
}
