package cache

import (
	"context"
	"testing"

	"sara/translate"
)

// A ranking is made once per copy and order, counts against the memory limit, and is made again for a new copy.
func TestRankings(t *testing.T) {
	clock := newClock()
	r := newReplica(t, nil, clock)
	b := answering(rowsOf(t, 5000))
	key := translate.Order{By: "key"}
	entry := r.do(t, b.request("p", wide("a")), Filled).Entry
	before := r.memory.values.Weight()
	made := r.memory.ranking(entry, key, "account")
	if more := r.memory.values.Weight() - before; more < int64(made.Size()) || more > int64(made.Size())+2*valueOverhead {
		t.Errorf("a ranking of %d bytes weighs %d", made.Size(), more)
	}
	if r.memory.ranking(entry, key, "account") != made {
		t.Error("the ranking is made twice")
	}
	if r.memory.ranking(entry, translate.Order{By: "key", Descending: true}, "account") == made {
		t.Error("two orders have one ranking")
	}
	clock.advance(ttl)
	fresh := b.request("p", wide("a"))
	fresh.Bypass = true
	if newer := r.do(t, fresh, Filled).Entry; r.memory.ranking(newer, key, "account") == made {
		t.Error("the ranking of the last copy orders the new one")
	}
}

// A request for current rows waits for the refill of stale ones. If that fails, it gets the stale rows with the error.
func TestCurrentWaitsForTheRefill(t *testing.T) {
	clock := newClock()
	r := newReplica(t, nil, clock)
	b := answering(rowsOf(t, 3))
	old := r.do(t, b.request("p", wide("a")), Filled).Entry
	clock.advance(ttl)
	current := b.request("p", wide("a"))
	current.Current = true
	if r.Has(t.Context(), current) {
		t.Error("stale rows are taken for current ones")
	}
	if found := r.do(t, current, Filled); found.Entry == old {
		t.Error("it got the stale rows")
	}
	r.do(t, current, HitMemory)
	clock.advance(ttl)
	current.Fill = func(context.Context) (*translate.Rows, error) { return nil, errUpstream }
	if found, err := r.Do(t.Context(), current); err == nil || found.Entry == nil || !found.Stale {
		t.Errorf("found %+v, %v, want the stale rows with the error", found, err)
	}
}
