package policy

import (
	"context"
	"testing"
	"time"
)

// A leaseWorld is a replica with a hot key, and how to look at what Redis has of its account.
type leaseWorld struct {
	*history
	*historyReplica
}

func newLeaseWorld(t *testing.T, replicas int) *leaseWorld {
	t.Helper()
	h := newHistoryWorld(t).begin(t, 1)
	h.plan.RequestsPerHour, h.plan.RequestsPerDay = 10_000, 10_000
	h.startReplicas(replicas)
	for _, r := range h.replicas {
		// Else a replica that has looked at the usage would end leases 20 ms later, beside the test.
		r.batcher.after = func(time.Duration) <-chan time.Time { return nil }
	}
	t.Cleanup(func() {
		for _, r := range h.replicas {
			r.Close()
		}
	})
	return &leaseWorld{h, h.replicas[0]}
}

// together has n requests of a key decided in one round trip, and returns the last one.
func (w *leaseWorld) together(r *historyReplica, key string, n int) *admission {
	w.t.Helper()
	batch := make([]*admission, n)
	for i := range batch {
		batch[i] = &admission{accountID: "account", keyID: key, plan: w.plan}
	}
	r.batcher.decide(batch)
	for _, a := range batch {
		if a.err != nil {
			w.t.Fatal(a.err)
		}
	}
	return batch[n-1]
}

// endLeases ends the leases that were last granted at least so long ago, in one round trip.
func (w *leaseWorld) endLeases(age time.Duration) {
	w.t.Helper()
	ends := w.fallback.endLeases(age)
	w.batcher.decide(ends)
	for _, a := range ends {
		if a.err != nil {
			w.t.Fatal(a.err)
		}
	}
}

// counted returns the requests of the day and those on lease in Redis.
func (w *leaseWorld) counted() (used, leased int) {
	w.t.Helper()
	var stored struct {
		Used   int `redis:"dn"`
		Leased int `redis:"ln"`
	}
	w.must(w.world.control.HMGet(w.t.Context(), accountKey("account"), "dn", "ln").Scan(&stored))
	return stored.Used, stored.Leased
}

func (w *leaseWorld) wantCounted(used, leased int) {
	w.t.Helper()
	if u, l := w.counted(); u != used || l != leased {
		w.t.Errorf("Redis has %d requests and %d on lease, want %d and %d", u, l, used, leased)
	}
}

// Admit decides a request without Redis while the lease lasts, and counts on from the last round trip.
func TestAHotKeyIsAdmittedFromItsLease(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.together(w.historyReplica, "key", hotRequests)
	w.wantCounted(hotRequests, firstLease*hotRequests)
	w.cut.Store(true)
	for n := range hotRequests {
		usage, refusal := w.Admit("account", "key", w.plan)
		if refusal != nil || usage.RequestsToday != hotRequests+n+1 || usage.RequestsThisHour != usage.RequestsToday {
			t.Fatalf("request %d: %+v %+v", n+1, usage, refusal)
		}
	}
	if n := counterOf(t, w.registry, "sara_budget_leased_requests_total", ""); n != hotRequests {
		t.Errorf("the metric counts %v requests from leases, want %d", n, hotRequests)
	}
	w.cut.Store(false)
	last := w.together(w.historyReplica, "other", 1)
	if last.usage.RequestsToday != 2*hotRequests+1 {
		t.Errorf("the next request of another key is number %d", last.usage.RequestsToday)
	}
	w.wantCounted(2*hotRequests+1, (firstLease-1)*hotRequests)
}

func TestAKeyIsNotLeasedIf(t *testing.T) {
	for name, c := range map[string]struct {
		requests int
		change   func(*Plan)
	}{
		"few of its requests come at once":      {hotRequests - 1, func(*Plan) {}},
		"its minute is as low as in most plans": {10, func(p *Plan) { p.RequestsPerMinutePerKey = 60 }},
		"the hour is low":                       {10, func(p *Plan) { p.RequestsPerHour = leastLeased - 1 }},
		"the day is low":                        {10, func(p *Plan) { p.RequestsPerDay = leastLeased - 1 }},
		"too little of the hour is left":        {10, func(p *Plan) { p.RequestsPerHour = leastLeased + 9 }},
		"too little of the minute is left":      {10, func(p *Plan) { p.RequestsPerMinutePerKey = leastLeased + 9 }},
		"the requests count in the minute only": {10, func(p *Plan) { *p = p.minuteOnly() }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLeaseWorld(t, 1)
			c.change(&w.plan)
			w.together(w.historyReplica, "key", c.requests)
			if _, leased := w.counted(); leased != 0 {
				t.Errorf("%d requests are leased", leased)
			}
		})
	}
}

// A lease is a 64th of what is left of the lowest limit.
func TestALeaseLeavesTheRestToOthers(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.plan.RequestsPerHour = 100 + 64*9
	w.together(w.historyReplica, "key", 100)
	w.wantCounted(100, 9)
}

// What a plan's limits allowed to lease is not used under another plan.
func TestALeaseEndsWithItsPlan(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.together(w.historyReplica, "key", hotRequests)
	w.plan.RequestsPerDay = hotRequests
	if _, ok, _ := w.fallback.take("account", "key", &w.plan); ok {
		t.Error("the lease is used under another plan")
	}
	if a := w.together(w.historyReplica, "key", 1); a.refusal == nil || a.refusal.Ceiling != AccountDay || a.refusal.byLeases {
		t.Errorf("got %+v under a lower plan", a.refusal)
	}
	w.plan.RequestsPerDay = 20_000
	w.together(w.historyReplica, "key", 1)
	w.wantCounted(hotRequests+1, 0)
}

// A lease is good for 20 ms, also after the clock of Redis has gone back.
func TestALeaseIsNotUsedForLong(t *testing.T) {
	for _, d := range []time.Duration{leaseUse, -time.Second} {
		w := newLeaseWorld(t, 1)
		w.together(w.historyReplica, "key", hotRequests)
		w.advance(d - 1)
		w.cut.Store(true)
		if _, ok, _ := w.fallback.take("account", "key", &w.plan); ok != (d > 0) {
			t.Errorf("after %v: admitted from the lease: %v", d-1, ok)
		}
		w.advance(1)
		if _, ok, _ := w.fallback.take("account", "key", &w.plan); ok {
			t.Errorf("after %v: admitted from the lease", d)
		}
	}
}

// A lease that is too old is returned in the call that asks for requests. It makes room for some of these, and the others are refused.
func TestTheReturnOfALeaseAdmitsNothingBeyondALimit(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.plan.RequestsPerHour = 1000
	w.together(w.historyReplica, "key", hotRequests)
	used, leased := w.counted()
	if leased == 0 {
		t.Fatal("nothing is leased")
	}
	const free = 5
	w.together(w.historyReplica, "other", w.plan.RequestsPerHour-used-leased-free)
	w.advance(leaseUse)
	if _, ok, _ := w.fallback.take("account", "key", &w.plan); ok {
		t.Fatal("admitted from a lease that is too old")
	}
	if a := w.together(w.historyReplica, "key", free+leased+1); a.refusal == nil || a.refusal.Ceiling != AccountHour || a.refusal.byLeases {
		t.Errorf("a request beyond the limit of the hour: got %+v", a.refusal)
	}
	w.wantCounted(w.plan.RequestsPerHour, 0)
}

// A lease that runs low, or is half over, is extended without a request that waits.
func TestALeaseIsExtended(t *testing.T) {
	for name, wait := range map[string]time.Duration{"it runs low": 0, "half of its time is over": leaseUse/2 + 1} {
		t.Run(name, func(t *testing.T) {
			w := newLeaseWorld(t, 1)
			w.together(w.historyReplica, "key", 64)
			w.advance(wait)
			asked, admitted := 0, 0
			for range 200 {
				_, ok, low := w.fallback.take("account", "key", &w.plan)
				if low {
					asked++
					w.batcher.decide([]*admission{{accountID: "account", keyID: "key", plan: w.plan, leaseOnly: true}})
				}
				if ok {
					admitted++
				}
			}
			if admitted != 200 || asked == 0 || asked > 6 {
				t.Errorf("%d of 200 requests are admitted, and Redis was asked for more %d times", admitted, asked)
			}
		})
	}
}

// A replica that stops returns its leases, so that the allowance is not lost.
func TestCloseReturnsLeases(t *testing.T) {
	w := newLeaseWorld(t, 2)
	w.together(w.historyReplica, "key", 10)
	w.fallback.take("account", "key", &w.plan)
	w.Close()
	w.replicas = w.replicas[1:]
	w.wantCounted(11, 0)
}

// What is leased and not returned counts as used after a second. The replica that reports it later does not count it again.
func TestALeaseThatIsNotReturnedCountsAsUsed(t *testing.T) {
	w := newLeaseWorld(t, 2)
	w.together(w.replicas[0], "key", 10)
	_, leased := w.counted()
	w.fallback.take("account", "key", &w.plan)
	w.advance(time.Second)
	w.together(w.replicas[1], "other", 1)
	w.wantCounted(11, leased)
	w.advance(1000)
	w.together(w.replicas[1], "other", 1)
	w.wantCounted(12+leased, 0)
	w.endLeases(leaseUse)
	w.wantCounted(12+leased, 0)
	if usage := w.replicas[0].Usage("account"); usage.RequestsToday != 12+leased || usage.RequestsThisHour != 12+leased {
		t.Errorf("the late replica knows of %+v", usage)
	}
}

// It does so too if what comes next restores what another replica has counted.
func TestALeaseLapsesInARestore(t *testing.T) {
	w := newLeaseWorld(t, 2)
	second := w.replicas[1]
	w.together(second, "other", 1)
	w.together(w.replicas[0], "key", 10)
	_, leased := w.counted()
	w.fallback.take("account", "key", &w.plan)
	w.advance(time.Second + time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w.must(second.restore(ctx, second.fallback.ledger("account")))
	w.endLeases(leaseUse) // the late replica's report is of what has lapsed
	w.wantCounted(11+leased, 0)
	if usage := second.Usage("account"); usage.RequestsThisHour != 11+leased {
		t.Errorf("Redis has counted %+v", usage)
	}
}

// What was admitted from a lease before an hour ended is of that hour, though it is reported later.
func TestALeaseIsReportedForItsHour(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.advance(hourOf(w.clock.now()).end().Sub(w.clock.now()) - time.Millisecond)
	w.together(w.historyReplica, "key", 10)
	w.fallback.take("account", "key", &w.plan)
	w.advance(time.Millisecond)
	usage := w.together(w.historyReplica, "other", 1).usage
	if usage.RequestsThisHour != 1 || usage.RequestsToday != 12 {
		t.Errorf("got %+v", usage)
	}
	if n := w.world.control.HGet(t.Context(), accountKey("account"), "hn").Val(); n != "1" {
		t.Errorf("Redis has counted %s requests of the new hour", n)
	}
}

// A lease takes requests of the key's minute, and gives back those that are returned.
func TestALeaseCountsInTheMinute(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.plan.RequestsPerMinutePerKey = 1000
	w.together(w.historyReplica, "key", 10)
	_, leased := w.counted()
	w.fallback.take("account", "key", &w.plan)
	if a := w.together(w.historyReplica, "key", 1000-10-leased+1); a.refusal == nil || a.refusal.Ceiling != KeyMinute {
		t.Errorf("more is admitted than the minute has without the lease: %+v", a.refusal)
	}
	w.endLeases(0)
	left := leased - 1
	if a := w.together(w.historyReplica, "key", left); a.refusal != nil {
		t.Errorf("less than %d are given back: %+v", left, a.refusal)
	}
	if a := w.together(w.historyReplica, "key", 1); a.refusal == nil {
		t.Error("more is admitted than the minute has")
	}
}

// When Redis has lost a lease, its replica gives it up with its next round trip, and returns nothing.
func TestALeaseThatRedisHasLostIsGivenUp(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.together(w.historyReplica, "key", 10)
	w.fallback.take("account", "key", &w.plan)
	w.must(w.world.control.Del(t.Context(), accountKey("account")).Err())
	w.together(w.historyReplica, "other", 1)
	w.wantCounted(12, 0)
	if _, ok, _ := w.fallback.take("account", "key", &w.plan); ok {
		t.Error("the lease is still used")
	}
	w.together(w.historyReplica, "key", hotRequests)
	w.must(w.world.control.HSet(t.Context(), accountKey("account"), "ln", 0).Err())
	w.endLeases(0)
	w.wantCounted(12+hotRequests, 0)
}

// What Redis has lost of one replica's requests is not taken for what another one has leased.
func TestALossIsNotTakenForALease(t *testing.T) {
	w := newLeaseWorld(t, 2)
	w.together(w.replicas[1], "other", hotRequests)
	for range 3 {
		w.replicas[1].fallback.take("account", "other", &w.plan)
	}
	w.replicas[1].batcher.decide(w.replicas[1].fallback.endLeases(0))
	w.together(w.replicas[0], "key", 10)
	used, leased := w.counted()
	w.copies = w.copyRedis()
	w.together(w.replicas[1], "other", 1)
	w.restoreCopy()
	w.setClock()
	w.together(w.replicas[1], "other", 1)
	w.wantCounted(used+2, leased)
}

// A lease does not outlive its day, also if the first write of the next one is the late refund of a live call.
func TestALeaseIsForgottenByTheRefundOfAnotherDay(t *testing.T) {
	w := newLeaseWorld(t, 2)
	w.together(w.replicas[0], "key", 10)
	yesterday := w.clock.now()
	w.advance(24 * time.Hour)
	w.replicas[1].RefundLiveCalls("account", 1, yesterday)
	if usage := w.together(w.replicas[1], "other", 1).usage; usage.RequestsToday != 1 {
		t.Errorf("Redis has counted %+v", usage)
	}
}

// A lease that lapsed in an earlier hour counts in the day only.
func TestALeaseLapsesInItsHour(t *testing.T) {
	w := newLeaseWorld(t, 2)
	w.together(w.replicas[0], "key", 10)
	_, leased := w.counted()
	w.advance(time.Hour)
	usage := w.together(w.replicas[1], "other", 1).usage
	if usage.RequestsThisHour != 1 || usage.RequestsToday != 11+leased {
		t.Errorf("%d were leased an hour ago, and Redis has counted %+v", leased, usage)
	}
}

// What was admitted from a lease before midnight does not count in the new day, though it is reported then.
func TestALeaseEndsWithItsDay(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.advance(hourOf(w.clock.now()).endOfDay().Sub(w.clock.now()) - time.Millisecond)
	w.together(w.historyReplica, "key", 10)
	w.fallback.take("account", "key", &w.plan)
	w.advance(time.Millisecond)
	w.fallback.take("account", "key", &w.plan)
	w.together(w.historyReplica, "other", 1)
	w.advance(2 * time.Second)
	if usage := w.Usage("account"); usage.RequestsToday != 2 || usage.RequestsThisHour != 2 {
		t.Errorf("two requests are of the new day, and Redis has counted %+v", usage)
	}
}

// An outage of Redis ends leases: their requests are part of what this replica's share is of.
func TestAnOutageEndsLeases(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.together(w.historyReplica, "key", 10)
	w.goAway()
	if w.fallback.isLeasing() {
		t.Error("there are leases while Redis is away")
	}
	usage, refusal := w.Admit("account", "key", w.plan)
	if refusal != nil || usage.RequestsToday != 11 {
		t.Errorf("got %+v and %+v", usage, refusal)
	}
	w.settle()
	if used, leased := w.counted(); used < 11 || leased != 0 {
		t.Errorf("Redis has %d requests and %d on lease after the outage", used, leased)
	}
}
