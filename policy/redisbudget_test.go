package policy

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"sara/policy/redistest"
)

func TestCachedRefusalsSkipRedisUntilTheCeilingResets(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	control := server.Client()
	for i, ceiling := range ceilings(2) {
		clock := clockAt(time.Now())
		s := startRedisBudget(t, server.URL(), redisOptions{patient: true, now: clock.now})
		account := string(rune('a' + i))
		_, refusal := admitN(s, 3, account, account+"key", ceiling.plan)
		if refusal == nil {
			t.Fatalf("ceiling %d does not refuse", ceiling.ceiling)
		}
		before := roundTrips(t, control)
		shown, _ := s.Admit(account, account+"key", ceiling.plan)
		clock.advance(refusal.RetryAfter / 2)
		later, again := s.Admit(account, account+"key", ceiling.plan)
		wantRefusal(t, again, ceiling.ceiling, 2, refusal.RetryAfter/2)
		if passed := later.At.Sub(shown.At); passed != refusal.RetryAfter/2 {
			t.Errorf("ceiling %d: the time of the counter advances by %v within %v", ceiling.ceiling, passed, refusal.RetryAfter/2)
		}
		admitN(s, 998, account, account+"key", ceiling.plan)
		if trips := roundTrips(t, control) - before; trips != 0 {
			t.Errorf("ceiling %d: 1000 refusals made %v round trips", ceiling.ceiling, trips)
		}
		if got := s.metric(t, "sara_budget_remembered_refusals_total"); got != 1000 {
			t.Errorf("ceiling %d: the metric counts %v of 1000", ceiling.ceiling, got)
		}
		clock.advance(refusal.RetryAfter - refusal.RetryAfter/2)
		admitN(s, 1, account, account+"key", ceiling.plan)
		if trips := roundTrips(t, control) - before; trips == 0 {
			t.Errorf("ceiling %d: the refusal is cached for too long", ceiling.ceiling)
		}
	}
}

// A request that no allowance covers takes one round trip, and none while its refusal is cached.
func TestChargedMinuteTakesOneRoundTripAndRefusalsNone(t *testing.T) {
	server := redistest.Single(t)
	control := server.Client()
	clock := clockAt(time.Now())
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true, now: clock.now})
	plan := Plan{RequestsPerMinutePerKey: 2}
	before := roundTrips(t, control)
	for range 2 {
		if _, refusal := s.ChargeMinute("a", "k", plan); refusal != nil {
			t.Fatal(refusal)
		}
	}
	_, refusal := s.ChargeMinute("a", "k", plan)
	wantRefusal(t, refusal, KeyMinute, 2, time.Minute)
	// The first call of a script that the server does not have takes another one, which fails.
	if trips := roundTrips(t, control) - before; trips > 4 {
		t.Errorf("three charges made %v round trips", trips)
	}
	before = roundTrips(t, control)
	for range 1000 {
		if _, again := s.ChargeMinute("a", "k", plan); again == nil {
			t.Fatal("a charge passes")
		}
	}
	if trips := roundTrips(t, control) - before; trips != 0 {
		t.Errorf("1000 refusals made %v round trips", trips)
	}
	clock.advance(refusal.RetryAfter)
	_, _ = s.ChargeMinute("a", "k", plan)
	if trips := roundTrips(t, control) - before; trips != 1 {
		t.Errorf("after the refusal: %v round trips", trips)
	}
}

func TestCachedRefusalsAreKeptApartByKey(t *testing.T) {
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	plan := generousPlan()
	plan.RequestsPerMinutePerKey = 1
	admitN(s, 2, "same", "same", plan) // even if a key has the id of its account
	if admitted, refusal := admitN(s, 1, "same", "other", plan); admitted != 1 {
		t.Errorf("another key: %+v", refusal)
	}
}

func TestCachedRefusalOfAPropertyAllowsFewerCalls(t *testing.T) {
	server := redistest.Single(t)
	control := server.Client()
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	plan := generousPlan()
	plan.LiveCallsPerMinutePerProperty = 3
	_ = s.ChargeLiveCalls("a", "p", 2, plan)
	wantRefusal(t, s.ChargeLiveCalls("a", "p", 2, plan), PropertyMinute, 3, time.Minute)
	before := roundTrips(t, control)
	for range 100 {
		wantRefusal(t, s.ChargeLiveCalls("b", "p", 2, plan), PropertyMinute, 3, time.Minute)
	}
	if trips := roundTrips(t, control) - before; trips != 0 {
		t.Errorf("100 refusals made %v round trips", trips)
	}
	if refusal := s.ChargeLiveCalls("b", "p", 1, plan); refusal != nil {
		t.Errorf("one call where two do not fit: %+v", refusal)
	}
}

func TestFullBucketsAreDeletedFromRedisDaily(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	ctx, control, plan := t.Context(), server.Client(), generousPlan()
	plan.RequestsPerMinutePerKey = 1
	admitN(s, 1, "a", "busy", plan)
	if err := control.HSet(ctx, accountKey("a"), "m:gone", time.Now().UnixMicro(), "d", hourOf(time.Now()).day()-1,
		"b:gone", packed(hourOf(time.Now()).day()-1, 7)).Err(); err != nil {
		t.Fatal(err)
	}
	(&budgets{replicas: []Budget{s.RedisBudget}}).forget("a")
	admitN(s, 1, "a", "new", plan)
	fields := control.HGetAll(ctx, accountKey("a")).Val()
	if fields["m:gone"] != "" || fields["b:gone"] != "" || fields["m:busy"] == "" || fields["m:new"] == "" {
		t.Errorf("after midnight: %v", fields)
	}
	if ttl := control.TTL(ctx, accountKey("a")).Val(); ttl <= 24*time.Hour || ttl > 48*time.Hour {
		t.Errorf("the counts expire in %v", ttl)
	}
}

func TestRedisClockSetBackCostsAtMostOneInterval(t *testing.T) {
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	ctx, control, plan := t.Context(), server.Client(), generousPlan()
	plan.RequestsPerMinutePerKey = 2
	admitN(s, 1, "a", "k", plan)
	if err := control.HSet(ctx, accountKey("a"), "m:k", time.Now().Add(time.Hour).UnixMicro()).Err(); err != nil {
		t.Fatal(err)
	}
	_, refusal := admitN(s, 1, "a", "k", plan)
	wantRefusal(t, refusal, KeyMinute, 2, 30*time.Second)
	if full, _ := control.HGet(ctx, accountKey("a"), "m:k").Int64(); full > time.Now().Add(time.Minute).UnixMicro() {
		t.Errorf("the bucket is full only at %v", time.UnixMicro(full))
	}
}

// A replica has a bucket as Redis showed it while Redis' clock was ahead. That it is full only then does not mean that requests were admitted.
func TestBucketOfARedisClockThatWasAheadIsNotBeyondItsLimit(t *testing.T) {
	t.Parallel()
	avoidHourEnd(t)
	server := redistest.Single(t)
	s, plan := startRedisBudget(t, server.URL(), redisOptions{patient: true}), generousPlan()
	admitN(s, 1, "a", "k", plan)
	ahead := tokenBucket(time.Now().AddDate(0, 0, 1).UnixMicro())
	s.fallback.mu.Lock()
	s.fallback.accounts["a"].buckets["k"] = keyBucket{ahead, ahead}
	s.fallback.mu.Unlock()
	if err := server.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	admitN(s, 1, "a", "k", plan) // notices the loss
	if got := counterOf(t, s.registry, "sara_overadmitted_total", "minute"); got != 0 {
		t.Errorf("%v requests count as beyond the minute's limit", got)
	}
	if restored := s.metric(t, "sara_budget_restored_total"); restored != 1 {
		t.Errorf("%v requests were restored, want the first", restored)
	}
}

func TestConcurrentAdmissionsShareRoundTrips(t *testing.T) {
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	control, plan := server.Client(), generousPlan()
	plan.RequestsPerMinutePerKey = 500 // too few for a lease, whose return would be one more round trip
	admitN(s, 1, "a", "k", plan)
	server.Freeze()
	var asking atomic.Int64
	gathered := make(chan struct{})
	go func() {
		defer close(gathered)
		c := &budgets{replicas: []Budget{s}}
		c.concurrently(200, func(_ int, b Budget) bool {
			asking.Add(1)
			_, refusal := b.Admit("a", "k", plan)
			return refusal == nil
		})
	}()
	for asking.Load() < 200 {
		runtime.Gosched()
	}
	server.Thaw()
	<-gathered
	if trips := roundTrips(t, control); trips > 10 {
		t.Errorf("200 concurrent admissions made %v round trips", trips)
	}
	requests, batches := s.metric(t, "sara_budget_batch_requests_sum"), s.metric(t, "sara_budget_batch_requests_count")
	trips, seconds := s.metric(t, "sara_budget_round_trip_seconds_count"), s.metric(t, "sara_budget_round_trip_seconds_sum")
	if requests != 201 || batches > 10 || trips != batches || seconds <= 0 {
		t.Errorf("the metrics count %v requests in %v batches, and %v round trips in %v s", requests, batches, trips, seconds)
	}
}

func TestAdmissionAllocationBudgets(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	const budget = 28
	if allocations := testing.AllocsPerRun(500, func() { admitN(s, 1, "a", "k", generousPlan()) }); allocations > budget {
		t.Errorf("an unbatched admission allocates %v times, want at most %d", allocations, budget)
	}
	refused := generousPlan()
	refused.RequestsPerDay = 1
	if allocations := testing.AllocsPerRun(500, func() { admitN(s, 1, "a", "k", refused) }); allocations > 1 {
		t.Errorf("a cached refusal allocates %v times, want at most 1", allocations)
	}
	local := NewMemoryBudget(time.Now)
	if allocations := testing.AllocsPerRun(500, func() { admitN(local, 1, "a", "k", generousPlan()) }); allocations > 0 {
		t.Errorf("an admission from memory allocates %v times", allocations)
	}
}
