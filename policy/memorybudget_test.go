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

// fakeLedger keeps counts in memory, and fails as often as it is told to.
type fakeUsageStore struct {
	mu    sync.Mutex
	kept  map[string]UsageCount
	saves int
	fail  int
}

var errUsageStore = errors.New("the disk is full")

func (l *fakeUsageStore) SaveUsage(_ context.Context, counts []UsageCount) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saves++
	if l.fail > 0 {
		l.fail--
		return errUsageStore
	}
	for _, c := range counts {
		l.kept[c.AccountID] = c
	}
	return nil
}

func (l *fakeUsageStore) Usage(_ context.Context, day int64) ([]UsageCount, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail > 0 {
		l.fail--
		return nil, errUsageStore
	}
	return slices.DeleteFunc(slices.Collect(maps.Values(l.kept)), func(c UsageCount) bool { return c.Day != day }), nil
}

// keepOnce runs Keep for so many ticks and its end, and returns what it reported.
func persistTicks(local *MemoryBudget, ledger UsageStore, ticks int) (reported []error) {
	ctx, stop := context.WithCancel(context.Background())
	tick, ended := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(ended)
		local.Persist(ctx, ledger, tick, func(err error) { reported = append(reported, err) })
	}()
	for range ticks {
		tick <- time.Time{}
	}
	stop()
	<-ended
	return reported
}

func noon() *manualClock { return clockAt(time.Date(2026, 3, 5, 12, 30, 0, 0, time.UTC)) }

func TestLocalCountsSurviveARestart(t *testing.T) {
	clock, ledger := noon(), &fakeUsageStore{kept: map[string]UsageCount{}}
	before := NewMemoryBudget(clock.now)
	admitN(before, 3, "a", "k", generousPlan())
	_ = before.ChargeLiveCalls(t.Context(), "a", "p", 2, generousPlan())
	if reported := persistTicks(before, ledger, 0); len(reported) != 0 {
		t.Errorf("reported %v", reported)
	}

	after := NewMemoryBudget(clock.now)
	if err := after.Load(t.Context(), ledger); err != nil {
		t.Fatal(err)
	}
	if usage := after.Usage(t.Context(), "a"); usage.RequestsThisHour != 3 || usage.RequestsToday != 3 || usage.CallsToday != 2 {
		t.Errorf("after the restart: %+v", usage)
	}
	saves := ledger.saves
	persistTicks(after, ledger, 2)
	if ledger.saves != saves {
		t.Errorf("saved %d times what had not changed", ledger.saves-saves)
	}

	clock.advance(time.Hour)
	nextHour := NewMemoryBudget(clock.now)
	if err := nextHour.Load(t.Context(), ledger); err != nil {
		t.Fatal(err)
	}
	if usage := nextHour.Usage(t.Context(), "a"); usage.RequestsThisHour != 0 || usage.RequestsToday != 3 {
		t.Errorf("after a restart in the next hour: %+v", usage)
	}
	ledger.fail = 1
	if err := nextHour.Load(t.Context(), ledger); !errors.Is(err, errUsageStore) {
		t.Errorf("a ledger that fails: %v", err)
	}
}

func TestASaveThatDoesNotWorkLosesNoCounts(t *testing.T) {
	clock, ledger := noon(), &fakeUsageStore{kept: map[string]UsageCount{}, fail: 2}
	local := NewMemoryBudget(clock.now)
	admitN(local, 3, "a", "k", generousPlan())
	reported := persistTicks(local, ledger, 2)
	if len(reported) != 2 || !errors.Is(reported[0], errUsageStore) || !strings.Contains(reported[0].Error(), "1 accounts") {
		t.Errorf("reported %v, want both saves that failed", reported)
	}
	if got := ledger.kept["a"].InDay; got != 3 {
		t.Errorf("kept %d requests of 3", got)
	}
}

func TestWhatIsUsedDuringASaveIsSavedWithTheNext(t *testing.T) {
	local := NewMemoryBudget(noon().now)
	admitN(local, 1, "a", "k", generousPlan())
	saved := local.unsynced()
	admitN(local, 1, "a", "k", generousPlan())
	local.markSynced(saved[0].used)
	if changes := local.unsynced(); len(changes) != 1 || changes[0].used.minus(changes[0].synced).InDay != 1 {
		t.Errorf("changes %+v, want the second request", changes)
	}
}

func TestMidnightDoesNotRefillTheMinute(t *testing.T) {
	clock := clockAt(time.Date(2026, 3, 5, 23, 59, 59, 0, time.UTC))
	local, plan := NewMemoryBudget(clock.now), generousPlan()
	plan.RequestsPerMinutePerKey, plan.LiveCallsPerMinutePerProperty = 2, 2
	admitN(local, 2, "a", "k", plan)
	_ = local.ChargeLiveCalls(t.Context(), "a", "p", 2, plan)
	clock.advance(2 * time.Second)
	local.Usage(t.Context(), "another account, whose request is the first of the day")
	usage, refusal := local.Admit(t.Context(), "a", "k", plan)
	wantRefusal(t, refusal, KeyMinute, 2, 28*time.Second)
	if usage.RequestsToday != 0 {
		t.Errorf("usage %+v on the new day", usage)
	}
	wantRefusal(t, local.ChargeLiveCalls(t.Context(), "a", "p", 1, plan), PropertyMinute, 2, 28*time.Second)
	clock.advance(28 * time.Second)
	if _, refusal := local.Admit(t.Context(), "a", "k", plan); refusal != nil {
		t.Errorf("refused when the time was over: %+v", refusal)
	}
}

func TestAClockThatIsSetBackGivesNothingOutAgain(t *testing.T) {
	clock := clockAt(time.Date(2026, 3, 5, 23, 59, 0, 0, time.UTC))
	local, plan := NewMemoryBudget(clock.now), generousPlan()
	plan.RequestsPerDay = 3
	admitN(local, 3, "a", "k", plan)
	clock.advance(2 * time.Hour)
	admitN(local, 2, "b", "k2", plan)
	clock.advance(-2 * time.Hour)
	for account, left := range map[string]int{"a": 3, "b": 1} {
		// In the day that the clock has been in already, a has used nothing and b two.
		if admitted, _ := admitN(local, 5, account, account, plan); admitted != left {
			t.Errorf("account %s: admitted %d, want %d", account, admitted, left)
		}
	}
	clock.advance(2 * time.Hour)
	if admitted, _ := admitN(local, 5, "a", "k", plan); admitted != 0 {
		t.Errorf("admitted %d when the clock was there again", admitted)
	}
}

func TestAClockThatIsSetBackLocksNobodyOutOfTheMinute(t *testing.T) {
	clock := noon()
	local, plan := NewMemoryBudget(clock.now), generousPlan()
	plan.RequestsPerMinutePerKey = 2
	admitN(local, 2, "a", "k", plan)
	clock.advance(-24 * time.Hour)
	_, refusal := admitN(local, 1, "a", "k", plan)
	wantRefusal(t, refusal, KeyMinute, 2, 30*time.Second)
	clock.advance(time.Minute)
	if admitted, refusal := admitN(local, 1, "a", "k", plan); admitted != 1 {
		t.Errorf("refused a minute later: %+v", refusal)
	}
}

func TestWhatIsOverIsForgotten(t *testing.T) {
	clock := noon()
	local := NewMemoryBudget(clock.now)
	for i := range 1000 {
		id := fmt.Sprint(i)
		admitN(local, 1, id, id, generousPlan())
		_ = local.ChargeLiveCalls(t.Context(), id, id, 1, generousPlan())
	}
	clock.advance(time.Hour)
	local.Usage(t.Context(), "0")
	if len(local.accounts) != 1000 || len(local.accounts["0"].buckets) != 0 || len(local.properties) != 0 {
		t.Errorf("%d accounts, %d buckets of one and %d properties after an hour", len(local.accounts), len(local.accounts["0"].buckets), len(local.properties))
	}
	clock.advance(24 * time.Hour)
	local.Usage(t.Context(), "0")
	if len(local.accounts) != 1 {
		t.Errorf("%d accounts on the next day", len(local.accounts))
	}
}
