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
