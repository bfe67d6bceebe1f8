package policy

import (
	"fmt"
	"testing"
	"time"
)

// TestABatchIsDecidedLikeItsRequestsOneByOne sends random batches of requests, of what counts in the minute only, and of reads of the
// usage: of several accounts, keys and plans, by several replicas, over the ends of hours and days. A MemoryBudget that gets the same
// requests one after the other has to decide alike, and to have counted as much after each of them.
func TestABatchIsDecidedLikeItsRequestsOneByOne(t *testing.T) {
	world := newHistoryWorld(t)
	seed := newSeed(t)
	h := world.begin(t, seed)
	h.startReplicas(3)
	defer func() {
		for _, r := range h.replicas {
			r.Close()
		}
	}()
	reference := NewMemoryBudget(h.clock.now)
	for n := range 200 {
		b := h.drawBatch()
		_, r := h.replica()
		r.batcher.decide(b) // which sorts it
		for _, a := range b {
			usage, refusal := a.decideBy(reference)
			a.usage.At = a.usage.At.In(usage.At.Location())
			if a.err != nil || a.usage != usage || !sameRefusal(a.refusal, refusal) {
				t.Fatalf("to repeat this: SEED=%d; batch %d, of %d: %s of %s: %+v %+v %v, want %+v %+v",
					seed, n, len(b), a.keyID, a.accountID, a.usage, a.refusal, a.err, usage, refusal)
			}
		}
		switch dice := h.random.IntN(20); {
		case dice == 0:
			h.advance(hourOf(h.clock.now()).endOfDay().Sub(h.clock.now()))
		case dice < 3:
			h.advance(hourOf(h.clock.now()).end().Sub(h.clock.now()))
		case dice == 3: // an hour may end before a minute does
			h.advance(max(0, hourOf(h.clock.now()).end().Sub(h.clock.now())-time.Duration(1+h.random.IntN(30))*time.Second))
		default:
			h.advance(time.Duration(h.random.IntN(30_000)) * time.Millisecond)
		}
	}
}

// drawBatch draws requests in the order in which they arrive.
func (h *history) drawBatch() []*admission {
	// Both minutes have whole microseconds per request, or else a change of plan would move buckets by a few.
	plans := [...]Plan{
		{RequestsPerMinutePerKey: 4, RequestsPerHour: 30, RequestsPerDay: 60},
		{RequestsPerMinutePerKey: 5, RequestsPerHour: 20, RequestsPerDay: 90},
	}
	batch := make([]*admission, 1+h.random.IntN(24))
	for i := range batch {
		a := &admission{accountID: fmt.Sprint("account", h.random.IntN(3)), plan: plans[h.random.IntN(40)/39]}
		switch dice := h.random.IntN(10); {
		case dice == 0:
			a.plan = Plan{} // a read of the usage
		case dice == 1:
			a.plan = a.plan.minuteOnly()
			fallthrough
		default:
			a.keyID = fmt.Sprint(a.accountID, " key", h.random.IntN(3))
		}
		batch[i] = a
	}
	return batch
}

// decideBy has another budget decide on a request.
func (a *admission) decideBy(b Budget) (Usage, *Refusal) {
	switch {
	case a.keyID == "":
		return b.Usage(a.accountID), nil
	case a.plan.RequestsPerHour == unlimited:
		return b.ChargeMinute(a.accountID, a.keyID, a.plan)
	}
	return b.Admit(a.accountID, a.keyID, a.plan)
}

// sameRefusal reports whether two refusals are the same to a client.
func sameRefusal(a, b *Refusal) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Ceiling == b.Ceiling && a.Limit == b.Limit && a.RetryAfter == b.RetryAfter
}
