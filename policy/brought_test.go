package policy

import (
	"fmt"
	"testing"
)

// A replica that is cut off stores what it admits, and another brings that to Redis. The cut-off replica must not take it for something
// that Redis has never had: after a loss, the others restore it with what they have seen, and it would count twice.
func TestShareThatAnotherReplicaHasBroughtCountsOnceAfterALoss(t *testing.T) {
	t.Parallel()
	world := newHistoryWorld(t)
	for n, during := range []func(h *history, r *historyReplica){
		func(*history, *historyReplica) {},
		func(h *history, r *historyReplica) { // admits and stores more
			h.admitAs(r, 1)
			r.check(t.Context())
		},
		func(h *history, r *historyReplica) { // stores more, and ends
			h.admitAs(r, 1)
			r.Close()
			h.replicas = h.replicas[:1]
			h.start(false)
		},
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			h := world.begin(t, 0)
			h.startReplicas(2)
			brings, isCut := h.replicas[0], h.replicas[1]
			h.admitAs(brings, 3)
			h.admitAs(isCut, 3)
			isCut.cut.Store(true)
			h.admitAs(isCut, 6) // the first opens the circuit
			isCut.check(t.Context())
			brings.redisDown(errRedisDown)
			for range rejoinTicks {
				brings.check(t.Context())
			}
			if usage := brings.Usage("account0"); usage.RequestsToday != 12 {
				t.Fatalf("%+v, want 12 requests: the share of the other replica is not brought to Redis", usage)
			}
			during(h, isCut)
			h.must(world.control.Del(t.Context(), accountKey("account0")).Err())
			if usage := brings.Usage("account0"); usage.RequestsToday != 12 { // restores what it has seen
				t.Fatalf("%+v after the loss, want 12 requests", usage)
			}
			h.check()
			for _, r := range h.replicas {
				r.Close()
			}
		})
	}
}

// What a replica has brought to Redis and cannot delete, because the database fails or the cut-off replica has just saved more, it brings
// again a second later. If Redis has lost it meanwhile, the replica has restored it already, with what it has seen, and it must not count twice.
func TestShareThatIsBroughtTwiceCountsOnceAfterALoss(t *testing.T) {
	t.Parallel()
	world := newHistoryWorld(t)
	for name, deleting := range map[string]func(h *history, isCut *historyReplica) error{
		"the database fails": func(*history, *historyReplica) error { return errCut },
		"more is saved": func(h *history, isCut *historyReplica) error {
			h.admitAs(isCut, 1)
			isCut.check(t.Context())
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := world.begin(t, 0)
			h.startReplicas(2)
			brings, isCut := h.replicas[0], h.replicas[1]
			h.admitAs(brings, 3)
			h.admitAs(isCut, 3)
			isCut.cut.Store(true)
			h.admitAs(isCut, 6) // the first opens the circuit
			isCut.check(t.Context())
			h.store.deleting = func() error {
				h.store.deleting = nil
				return deleting(h, isCut)
			}
			brings.shares.pending = true
			brings.check(t.Context())
			if usage := brings.Usage("account0"); usage.RequestsToday != 12 {
				t.Fatalf("%+v, want 12 requests: the share of the other replica is not brought to Redis", usage)
			}
			h.must(world.control.Del(t.Context(), accountKey("account0")).Err())
			if usage := brings.Usage("account0"); usage.RequestsToday != 12 { // restores what it has seen
				t.Fatalf("%+v after the loss, want 12 requests", usage)
			}
			brings.check(t.Context())
			if len(h.store.stored) != 0 {
				t.Errorf("the store still has %+v", h.store.stored)
			}
			h.check()
			for _, r := range h.replicas {
				r.Close()
			}
		})
	}
}

// Shares of many accounts and replicas are brought in parts. When a tick is over, the next part waits for the next tick, so that heartbeats
// go on. The replica uses Redis again when all are brought: until then, others may have used up what it would admit.
func TestManySharesAreBroughtInSeveralTicks(t *testing.T) {
	t.Parallel()
	h := newHistoryWorld(t).begin(t, 0)
	h.startReplicas(1)
	brings, now := h.replicas[0], hourOf(h.clock.now())
	const accounts = storeBatch/2 + 1 // of each of four replicas
	for n := range 4 * accounts {
		u := UsageCount{AccountID: fmt.Sprint("account", n/4), Hour: int64(now), Day: now.day(), InHour: 1, InDay: 1}
		row := ReplicaUsage{Replica: fmt.Sprint("ended", n%4), Used: u, Local: u, PerHour: 250, PerDay: 1000, CallsPerDay: 10}
		h.store.stored[row.Replica+u.AccountID] = row
	}
	again := h.store.stored["ended0account0"]
	again.Used.InDay, again.Local.InDay = 2, 2
	h.store.deleting = func() error {
		h.advance(probeInterval)
		h.store.stored["ended0account0"] = again // saved again while the first part is brought, so it stays until the other parts are
		return nil
	}
	brings.redisDown(errRedisDown)
	for _, left := range []int{4*accounts - storeBatch + 1, 4*accounts - 2*storeBatch + 1, 1} {
		if !brings.Degraded() {
			t.Error("the replica uses Redis before all shares are brought")
		}
		if brings.check(t.Context()); len(h.store.stored) != left {
			t.Fatalf("the store has %d rows, want %d", len(h.store.stored), left)
		}
	}
	brings.check(t.Context())
	if brings.Degraded() {
		t.Error("the replica does not use Redis again")
	}
	brings.check(t.Context())
	if len(h.store.stored) != 0 {
		t.Errorf("the store still has %d rows", len(h.store.stored))
	}
	for n := range accounts {
		if usage := brings.Usage(fmt.Sprint("account", n)); usage.RequestsToday != 4 && !(n == 0 && usage.RequestsToday == 5) {
			t.Fatalf("account %d: %+v, want 4 requests, or 5 of account 0", n, usage)
		}
	}
	brings.Close()
}

// A replica that starts while another one is cut off knows the share of that from the store. Redis does not have it yet, and has not lost it:
// the first request does not open the circuit.
func TestShareThatIsNotBroughtYetIsNoLoss(t *testing.T) {
	t.Parallel()
	h := newHistoryWorld(t).begin(t, 0)
	h.startReplicas(1)
	isCut := h.replicas[0]
	isCut.cut.Store(true)
	h.admitAs(isCut, 3)
	isCut.check(t.Context())
	h.start(false)
	starts := h.replicas[1]
	h.admitAs(starts, 1)
	if starts.Degraded() {
		t.Error("the replica does not use Redis")
	}
	h.check()
	for _, r := range h.replicas {
		r.Close()
	}
}

// What a replica has brought of one that has ended, it restores itself.
func TestShareThatIsBroughtIsKnown(t *testing.T) {
	t.Parallel()
	world := newHistoryWorld(t)
	h := world.begin(t, 0)
	h.startReplicas(2)
	brings, ends := h.replicas[0], h.replicas[1]
	ends.cut.Store(true)
	h.admitAs(ends, 3)
	ends.Close()
	h.replicas = h.replicas[:1]
	brings.shares.pending = true
	brings.check(t.Context())
	h.must(world.control.Del(t.Context(), accountKey("account0")).Err())
	h.check()
	brings.Close()
}

// admitAs has a replica admit n requests of the first account.
func (h *history) admitAs(r *historyReplica, n int) {
	h.t.Helper()
	for range n {
		_, refusal := r.Admit("account0", "key", h.plan)
		if refusal != nil {
			h.t.Fatalf("refused: %+v", refusal)
		}
		hour, day, _ := h.windows("account0")
		hour.admitted++
		day.admitted++
	}
}

// What another replica has brought, and Redis has lost, is stored once more when the replica ends: no other knows of its calls.
func TestShareThatWasBroughtAndLostOutlivesItsReplica(t *testing.T) {
	t.Parallel()
	world := newHistoryWorld(t)
	h := world.begin(t, 0)
	h.startReplicas(2)
	brings, isCut := h.replicas[0], h.replicas[1]
	isCut.cut.Store(true)
	h.admitAs(isCut, 3)
	if refusal := isCut.ChargeLiveCalls("account0", "property", 2, h.plan); refusal != nil {
		t.Fatalf("refused: %+v", refusal)
	}
	_, _, calls := h.windows("account0")
	calls.admitted += 2
	isCut.check(t.Context())
	brings.redisDown(errRedisDown)
	for range rejoinTicks {
		brings.check(t.Context())
	}
	if usage := brings.Usage("account0"); usage.RequestsToday != 3 || usage.CallsToday != 2 {
		t.Fatalf("%+v, want 3 requests and 2 calls: the share of the other replica is not brought to Redis", usage)
	}
	h.must(world.control.Del(t.Context(), accountKey("account0")).Err())
	isCut.Close()
	h.replicas = h.replicas[:1]
	h.start(false)
	h.check()
	for _, r := range h.replicas {
		r.Close()
	}
}
