package policy

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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

// An aroundHook calls a function before each pipeline, and another one after it.
type aroundHook struct{ before, after func() }

func (h *aroundHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h *aroundHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h *aroundHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		h.before()
		defer h.after()
		return next(ctx, commands)
	}
}

// What is admitted from leases during a round trip is counted after it, each request once and in its hour.
func TestALeaseIsUsedDuringARoundTrip(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.advance(hourOf(w.clock.now()).end().Sub(w.clock.now()) - time.Millisecond)
	w.together(w.historyReplica, "key", 10)
	take := func() { w.fallback.take("account", "key", &w.plan) }
	hook := &aroundHook{
		before: func() {
			take()
			take()
			w.advance(time.Millisecond)
			take()
		},
		after: take,
	}
	w.config.Client.AddHook(hook)
	usage := w.together(w.historyReplica, "other", 5).usage
	if usage.RequestsToday != 10+4+5 || usage.RequestsThisHour != 2+5 {
		t.Errorf("after ten requests, two from the lease, an hour's end, two more from it and five others: %+v", usage)
	}
	hook.before, hook.after = func() {}, func() {}
	usage = w.together(w.historyReplica, "other", 1).usage
	if usage.RequestsToday != 20 || usage.RequestsThisHour != 8 {
		t.Errorf("the next request is %+v", usage)
	}
	if usage := w.Usage("account"); usage.RequestsToday != 20 || usage.RequestsThisHour != 8 {
		t.Errorf("Redis has counted %+v", usage)
	}
}

// What is admitted locally while Redis is restored, since an outage has just ended, is not taken for another loss. It is counted later.
func TestARestoreIsNotOutrunByLocalAdmissions(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.together(w.historyReplica, "key", 1)
	w.must(w.world.control.Del(t.Context(), accountKey("account")).Err())
	late := 0
	hook := &aroundHook{before: func() {}, after: func() {
		late++
		w.fallback.Admit("account", "late", w.plan)
	}}
	w.config.Client.AddHook(hook)
	w.together(w.historyReplica, "key", 1)
	if late == 0 || w.Degraded() {
		t.Fatalf("%d are admitted in between; degraded: %v", late, w.Degraded())
	}
	hook.after = func() {}
	w.together(w.historyReplica, "key", 1)
	w.wantCounted(3+late, 0)
}

// Nor are calls that are charged locally meanwhile.
func TestARestoreIsNotOutrunByLocalCalls(t *testing.T) {
	w := newLeaseWorld(t, 1)
	charge := func() {
		t.Helper()
		if refusal := w.ChargeLiveCalls("account", "property", 1, w.plan); refusal != nil {
			t.Fatalf("a call is refused: %+v", refusal)
		}
	}
	charge()
	w.must(w.world.control.Del(t.Context(), accountKey("account")).Err())
	late := 0
	hook := &aroundHook{before: func() {}, after: func() {
		late++
		w.fallback.ChargeLiveCalls("account", "another property", 1, w.plan)
	}}
	w.config.Client.AddHook(hook)
	charge()
	if late == 0 || w.Degraded() {
		t.Fatalf("%d are charged in between; degraded: %v", late, w.Degraded())
	}
	hook.after = func() {}
	charge()
	if got := w.world.control.HGet(t.Context(), accountKey("account"), "cn").Val(); got != strconv.Itoa(3+late) {
		t.Errorf("Redis has %s calls, want %d", got, 3+late)
	}
}

// The comparison of all counts with Redis, every second and every minute, leaves to leases what is theirs.
func TestALeaseIsNotRestored(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.together(w.historyReplica, "key", 10)
	for _, full := range []int{0, fullSyncTicks} {
		w.fallback.take("account", "key", &w.plan)
		w.sinceFull = full
		w.RedisBudget.check(t.Context())
	}
	w.wantCounted(10, firstLease*10)
	w.endLeases(0)
	w.wantCounted(12, 0)
}

// The sweep at midnight leaves an account that has leases, whose number would be wrong after it.
func TestALeaseOutlivesTheSweep(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.together(w.historyReplica, "key", 10)
	w.advance(24 * time.Hour)
	w.Usage("another account")
	w.endLeases(leaseUse)
	if n := w.fallback.accountOf("account").leases; n != 0 || w.fallback.isLeasing() {
		t.Errorf("the account has %d leases", n)
	}
}

// A replica that wakes up after its lease has lapsed returns nothing, which would be of the lease of another one.
func TestALeaseIsNotReturnedLate(t *testing.T) {
	w := newLeaseWorld(t, 2)
	w.together(w.replicas[0], "key", 10)
	_, lapsed := w.counted()
	w.advance(time.Second + 1000)
	w.together(w.replicas[1], "other", 10)
	_, leased := w.counted()
	w.endLeases(leaseUse)
	w.wantCounted(20+lapsed, leased)
}

// A lease that is used up when it ends is not extended by the question for more that was still to be sent.
func TestALeaseThatIsUsedUpEnds(t *testing.T) {
	w := newLeaseWorld(t, 1)
	w.together(w.historyReplica, "key", 10)
	_, leased := w.counted()
	for range leased {
		w.fallback.take("account", "key", &w.plan)
	}
	w.endLeases(0)
	w.wantCounted(10+leased, 0)
}

// No more than a part of a batch waits for leases: one account's requests must not keep out those of others.
func TestFewRequestsWaitForLeases(t *testing.T) {
	w := newLeaseWorld(t, 1)
	batch := make([]*admission, maxWaiting+10)
	for i := range batch {
		batch[i] = &admission{refusal: &Refusal{byLeases: true}, lease: -9, done: make(chan struct{}, 1)}
	}
	refused := batch[maxWaiting]
	again := w.batcher.answer(batch)
	if len(again) != maxWaiting || len(refused.done) != 1 || refused.refusal == nil {
		t.Errorf("%d requests wait", len(again))
	}
	if first := again[0]; first.refusal != nil || first.lease != 0 {
		t.Errorf("the next round trip would return the lease again, or not decide: %+v", first)
	}
}

// A lease that is granted while this replica finds Redis lost is dropped, or its account would not be saved.
func TestALeaseOfALostRoundTripIsDropped(t *testing.T) {
	w := newLeaseWorld(t, 1)
	isDown := w.batcher.events.redisIsDown
	w.batcher.events.redisIsDown = func() bool {
		before := isDown()
		w.redisDown(errCut)
		return before
	}
	w.together(w.historyReplica, "key", 10)
	w.batcher.decide([]*admission{{accountID: "account", keyID: "key", plan: w.plan}})
	if n := w.fallback.accountOf("account").leases; n != 0 || w.fallback.isLeasing() {
		t.Errorf("the account has %d leases in an outage", n)
	}
}

// Whatever the counts of leases in an account's hash are changed to, no request is lost, and the next one repairs them.
func TestADamagedLeaseLosesNoRequest(t *testing.T) {
	w := newLeaseWorld(t, 1)
	for _, field := range []string{"ln", "le"} {
		for _, value := range damages {
			before := w.Usage("account").RequestsToday
			w.together(w.historyReplica, "key", 10)
			if _, ok, _ := w.fallback.take("account", "key", &w.plan); !ok {
				t.Fatalf("there is no lease before %s is %q", field, value)
			}
			w.must(w.world.control.HSet(t.Context(), accountKey("account"), field, value).Err())
			w.together(w.historyReplica, "other", 1)
			w.endLeases(0)
			w.together(w.historyReplica, "key", 2)
			if used, _ := w.counted(); used < before+14 || w.Degraded() {
				t.Fatalf("%s is %q: of %d requests, Redis has counted %d; degraded: %v", field, value, before+14, used, w.Degraded())
			}
			if got := w.world.control.HGet(t.Context(), accountKey("account"), field).Val(); got == value {
				t.Errorf("%s is still %q", field, value)
			}
			w.endLeases(0)
		}
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
