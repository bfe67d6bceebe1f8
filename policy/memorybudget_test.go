package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A fakeUsageStore keeps counts in a map; its next calls fail while fail is positive.
type fakeUsageStore struct {
	mu     sync.Mutex
	stored map[string]UsageCount
	saves  int
	fail   int
}

var errUsageStore = errors.New("the disk is full")

func (s *fakeUsageStore) SaveUsage(_ context.Context, counts []UsageCount) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saves++
	if s.fail > 0 {
		s.fail--
		return errUsageStore
	}
	for _, c := range counts {
		s.stored[c.AccountID] = c
	}
	return nil
}

func (s *fakeUsageStore) Usage(_ context.Context, day int64) ([]UsageCount, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		return nil, errUsageStore
	}
	return slices.DeleteFunc(slices.Collect(maps.Values(s.stored)), func(c UsageCount) bool { return c.Day != day }), nil
}

// persistTicks runs Persist for some ticks and the final save, and returns the reported errors.
func persistTicks(budget *MemoryBudget, store UsageStore, ticks int) (reported []error) {
	ctx, stop := context.WithCancel(context.Background())
	tick, ended := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(ended)
		budget.Persist(ctx, store, tick, func(err error) {
			if err != nil {
				reported = append(reported, err)
			}
		})
	}()
	for range ticks {
		tick <- time.Time{}
	}
	stop()
	<-ended
	return reported
}

func noon() *manualClock { return clockAt(time.Date(2026, 3, 5, 12, 30, 0, 0, time.UTC)) }

func TestMemoryBudgetSurvivesARestart(t *testing.T) {
	clock, store := noon(), &fakeUsageStore{stored: map[string]UsageCount{}}
	before := NewMemoryBudget(clock.now)
	admitN(before, 3, "a", "k", generousPlan())
	_ = before.ChargeLiveCalls("a", "p", 2, generousPlan())
	if reported := persistTicks(before, store, 0); len(reported) != 0 {
		t.Errorf("reported %v", reported)
	}

	after := NewMemoryBudget(clock.now)
	if err := after.Load(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if usage := after.Usage("a"); usage.RequestsThisHour != 3 || usage.RequestsToday != 3 || usage.CallsToday != 2 {
		t.Errorf("after the restart: %+v", usage)
	}
	saves := store.saves
	persistTicks(after, store, 2)
	if store.saves != saves {
		t.Errorf("saved unchanged counts %d times", store.saves-saves)
	}

	clock.advance(time.Hour)
	nextHour := NewMemoryBudget(clock.now)
	if err := nextHour.Load(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if usage := nextHour.Usage("a"); usage.RequestsThisHour != 0 || usage.RequestsToday != 3 {
		t.Errorf("after a restart in the next hour: %+v", usage)
	}
	store.fail = 1
	if err := nextHour.Load(t.Context(), store); !errors.Is(err, errUsageStore) {
		t.Errorf("a failing store: %v", err)
	}
}

func TestFailedSavesLoseNoCounts(t *testing.T) {
	clock, store := noon(), &fakeUsageStore{stored: map[string]UsageCount{}, fail: 2}
	budget := NewMemoryBudget(clock.now)
	admitN(budget, 3, "a", "k", generousPlan())
	reported := persistTicks(budget, store, 2)
	if len(reported) != 2 || !errors.Is(reported[0], errUsageStore) || !strings.Contains(reported[0].Error(), "1 account:") {
		t.Errorf("reported %v, want both failed saves", reported)
	}
	if got := store.stored["a"].InDay; got != 3 {
		t.Errorf("stored %d requests of 3", got)
	}
}

func TestUsageDuringASaveIsSavedNextTime(t *testing.T) {
	budget := NewMemoryBudget(noon().now)
	admitN(budget, 1, "a", "k", generousPlan())
	saved := budget.unsynced()
	admitN(budget, 1, "a", "k", generousPlan())
	budget.markStored(saved[0].used)
	if changes := budget.unsynced(); len(changes) != 1 || changes[0].used.minus(changes[0].synced).InDay != 1 {
		t.Errorf("changes %+v, want the second request", changes)
	}
}

func TestMidnightDoesNotRefillTheMinute(t *testing.T) {
	clock := clockAt(time.Date(2026, 3, 5, 23, 59, 59, 0, time.UTC))
	budget, plan := NewMemoryBudget(clock.now), generousPlan()
	plan.RequestsPerMinutePerKey, plan.LiveCallsPerMinutePerProperty = 2, 2
	admitN(budget, 2, "a", "k", plan)
	_ = budget.ChargeLiveCalls("a", "p", 2, plan)
	clock.advance(2 * time.Second)
	budget.Usage("another account, whose request is the first of the day")
	usage, refusal := budget.Admit("a", "k", plan)
	wantRefusal(t, refusal, KeyMinute, 2, 28*time.Second)
	if usage.RequestsToday != 0 {
		t.Errorf("usage %+v on the new day", usage)
	}
	wantRefusal(t, budget.ChargeLiveCalls("a", "p", 1, plan), PropertyMinute, 2, 28*time.Second)
	clock.advance(28 * time.Second)
	if _, refusal := budget.Admit("a", "k", plan); refusal != nil {
		t.Errorf("refused after the wait: %+v", refusal)
	}
}

func TestClockSetBackGrantsNothingTwice(t *testing.T) {
	clock := clockAt(time.Date(2026, 3, 5, 23, 59, 0, 0, time.UTC))
	for _, ahead := range []time.Duration{time.Minute, 2 * time.Hour, 23 * time.Hour} {
		budget, plan := NewMemoryBudget(clock.now), generousPlan()
		plan.RequestsPerDay = 3
		admitN(budget, 3, "a", "k", plan)
		admitN(budget, 3, "c", "k3", plan)
		clock.advance(ahead)
		for account, key := range map[string]string{"b": "k2", "c": "k3"} {
			if admitted, _ := admitN(budget, 2, account, key, plan); admitted != 2 {
				t.Errorf("account %s: admitted %d on the later day, want 2", account, admitted)
			}
		}
		clock.advance(-ahead)
		for _, account := range []string{"b", "c"} {
			if admitted, _ := admitN(budget, 5, account, account, plan); admitted != 1 { // of the later day, which the clock has already reached
				t.Errorf("account %s: admitted %d, want 1", account, admitted)
			}
		}
		clock.advance(ahead)
		for account, left := range map[string]int{"a": 3, "b": 0, "c": 0} {
			if admitted, _ := admitN(budget, 5, account, account, plan); admitted != left {
				t.Errorf("account %s: admitted %d when the clock reached that day again, want %d", account, admitted, left)
			}
		}
		clock.advance(-ahead)
	}
}

// A clock that was far ahead for a moment, such as before it was synchronized.
func TestClockThatWasFarAheadBlocksNobody(t *testing.T) {
	for _, ahead := range []time.Duration{25 * time.Hour, 400 * 24 * time.Hour} {
		clock := noon()
		budget, plan := NewMemoryBudget(clock.now), generousPlan()
		plan.RequestsPerHour, plan.RequestsPerDay = 3, 4
		clock.advance(ahead)
		admitN(budget, 3, "a", "k", plan)
		clock.advance(-ahead)
		_, refusal := admitN(budget, 1, "a", "k", plan)
		wantRefusal(t, refusal, AccountHour, 3, time.Hour)
		clock.advance(time.Hour)
		admitted, _ := admitN(budget, 1, "a", "k", plan) // it may cost an interval of the minute
		clock.advance(time.Minute)
		more, _ := admitN(budget, 4, "a", "k", plan)
		if admitted += more; admitted != 1 { // what was admitted counts on a day
			t.Errorf("ahead by %v: admitted %d in the next hour, want 1", ahead, admitted)
		}
		clock.advance(48 * time.Hour)
		if admitted, _ := admitN(budget, 4, "a", "k", plan); admitted != 3 {
			t.Errorf("ahead by %v: admitted %d two days later, want 3", ahead, admitted)
		}
	}
}

// Redis takes a mark of a day further ahead for a damaged one: counts of the account would be lost again, for as long as the replica runs.
func TestLedgerFollowsAClockOfRedisThatWasFarAhead(t *testing.T) {
	const ahead = 400 * 24 * time.Hour
	clock := noon()
	ledger := newMemoryBudget(clock.now, func() int { return 2 }, 2)
	clock.advance(ahead)
	admitN(ledger, 3, "a", "k", generousPlan())
	clock.advance(-ahead)
	today := hourOf(clock.now()).day()
	if m := ledger.marks("a"); m.ownDay != packed(today, 3) || m.knownDay != packed(today, 3) {
		t.Errorf("the marks are %+v, want 3 of day %d", m, today)
	}
}

func TestClockSetBackCostsAtMostOneInterval(t *testing.T) {
	clock := noon()
	budget, plan := NewMemoryBudget(clock.now), generousPlan()
	plan.RequestsPerMinutePerKey = 2
	admitN(budget, 2, "a", "k", plan)
	clock.advance(-24 * time.Hour)
	_, refusal := admitN(budget, 1, "a", "k", plan)
	wantRefusal(t, refusal, KeyMinute, 2, 30*time.Second)
	clock.advance(time.Minute)
	if admitted, refusal := admitN(budget, 1, "a", "k", plan); admitted != 1 {
		t.Errorf("refused a minute later: %+v", refusal)
	}
}

func TestSweepFreesFullBucketsAndPastDays(t *testing.T) {
	clock := noon()
	budget := NewMemoryBudget(clock.now)
	for i := range 1000 {
		id := fmt.Sprint(i)
		admitN(budget, 1, id, id, generousPlan())
		_ = budget.ChargeLiveCalls(id, id, 1, generousPlan())
	}
	clock.advance(time.Hour)
	budget.Usage("0")
	if len(budget.accounts) != 1000 || len(budget.accounts["0"].buckets) != 0 || len(budget.properties) != 0 {
		t.Errorf("%d accounts, %d buckets of one and %d properties after an hour", len(budget.accounts),
			len(budget.accounts["0"].buckets), len(budget.properties))
	}
	clock.advance(24 * time.Hour)
	budget.Usage("0")
	if len(budget.accounts) != 1 {
		t.Errorf("%d accounts on the next day", len(budget.accounts))
	}
}
