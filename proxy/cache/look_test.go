package cache

import (
	"context"
	"testing"

	"sara/policy/redistest"
	"sara/translate"
)

// Look returns what memory and Redis have, and leaves it to the caller where to wait for a fill: for its own, for the running one,
// for that of the other sample, and for one that bypasses the copies.
func TestLookWaitsForNoFill(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	clock := newClock()
	shared := answering(rowsOf(t, 7))
	filler := newReplica(t, server.Client(), clock)
	filler.do(t, shared.request("p", narrow("shared")), Filled)
	filler.settle()

	c := newReplica(t, server.Client(), clock)
	for _, status := range []Status{HitShared, HitMemory} {
		found, rest := c.Look(t.Context(), shared.request("p", narrow("shared")))
		if rest != nil || found.Status != status || found.Stale || found.Entry.Rows().Len() != 7 {
			t.Errorf("found %+v, and a rest %t, want %v alone", found, rest != nil, status)
		}
	}
	answer := make(chan struct{})
	slow := &backend{fill: func(context.Context, int64) (*translate.Rows, error) {
		<-answer
		return rowsOf(t, 3), nil
	}}
	own, bypassing := slow.request("p", narrow("slow")), slow.request("p", narrow("slow"))
	bypassing.Bypass = true
	var rests []func() (Found, error)
	for _, r := range []Request{own, own, slow.request("p", wide("slow")), bypassing} {
		found, rest := c.Look(t.Context(), r)
		if rest == nil || found.Entry != nil {
			t.Fatalf("%+v: found %+v while the upstream has not answered", r.Query, found)
		}
		rests = append(rests, rest)
	}
	close(answer)
	for i, fills := range []bool{true, false, false, true} {
		if found, err := rests[i](); err != nil || (found.Status == Filled) != fills || found.Entry.Rows().Len() != 3 {
			t.Errorf("request %d: found %+v, %v, want fills %t", i, found, err, fills)
		}
	}
	slow.want(t, 2)
}
