package proxy

import (
	"context"
	"sync"

	"sara/policy"
	"sara/proxy/spans"
)

// A liveCallReservation reserves the upstream calls of one request in the budgets of its account and its property. It is safe
// for concurrent use.
type liveCallReservation struct {
	gate       *policy.Gate
	grant      *policy.Grant
	propertyID string

	mu       sync.Mutex // guards the fields below
	expected int        // calls to reserve together with the first
	reserved int        // calls that are charged and not yet made
	called   bool       // a call was made
}

// Take charges for a call that is about to be made. The first call charges for all expected ones: a request that needs two
// calls must not spend one on half an answer. If the plan's minute never admits as many, it charges for those that fit: the
// rows of each stay, so a client that honours Retry-After has all of them after some minutes. If the plan's day never admits as many, it
// charges for none: the first call's rows are fresh for ten minutes or six hours (ttl), and the next call could be made only a day later.
func (r *liveCallReservation) Take(ctx context.Context) error {
	_, span := spans.Start(ctx, "charge")
	defer span.End()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reserved == 0 {
		calls := max(1, min(r.expected, r.grant.Plan.LiveCallsPerMinutePerProperty))
		if err := r.gate.ChargeLiveCalls(r.grant, r.propertyID, calls); err != nil {
			return err
		}
		r.expected, r.reserved = 0, calls
	}
	r.reserved--
	r.called = true
	return nil
}

// hasCalled reports whether the request has made a call.
func (r *liveCallReservation) hasCalled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.called
}

// release refunds the calls that turned out not to be needed, because other requests filled the cache meanwhile. A fill that continues
// without the request pays for its own call only, since nothing would refund the others.
func (r *liveCallReservation) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expected = 0
	if r.reserved > 0 {
		r.gate.RefundLiveCalls(r.grant, r.reserved)
		r.reserved = 0
	}
}
