package cache

import (
	"context"
	"sync"
	"time"

	"sara/proxy/redisrows"
	"sara/proxy/spans"
)

// leaseSuffix turns the key of an entry into that of the lease to fill it.
const leaseSuffix = ":lease"

// lease returns the timeout of taking a lease for a lookup that began at the given time.
func (l limits) lease(began time.Time) time.Duration {
	return max(l.patience-l.lookUp, l.patience-time.Since(began))
}

// leaseResult is the result of asking for a lease: one of the fields is set, or none if the replica should ask again.
type leaseResult struct {
	entry     *Entry // another replica has filled
	status    Status // of the entry
	token     string // this replica holds the lease; may come with an entry
	failure   []byte // another replica's fill failed for all waiters
	redisDown bool   // fill without a lease
}

// lease takes the lease of a lookup. If another replica holds it, it waits for that fill's event, but no longer than until
// a dead holder's lease has expired.
func (s *sharedStore) lease(ctx context.Context, l *lookup) leaseResult {
	ctx, span := spans.StartCall(ctx, "take lease")
	defer span.End()
	// Before the lease is taken: the holder may publish at any time after.
	events, cancel := s.events.expect(l.own.redisKey)
	defer cancel()
	// It also reads the entries, since the last holder may just have finished.
	found := s.seek(ctx, l, nil, s.limits.lease(l.began), leaseAnyway)
	switch {
	case !found.ok && found.token == "":
		return leaseResult{redisDown: ctx.Err() == nil}
	case found.token != "" || found.entry != nil && s.now().Sub(found.entry.filled) < l.TTL:
		return leaseResult{entry: found.entry, status: HitShared, token: found.token}
	}
	expiry := time.NewTimer(s.limits.held)
	defer expiry.Stop()
	select {
	case event := <-events:
		switch event.kind {
		case fillDone:
			return leaseResult{entry: s.fetch(ctx, l, nil).entry, status: Coalesced}
		case fillFailed:
			// A failure that cannot be decrypted is not from a replica: this one asks again.
			failure, _ := s.sealer.AppendOpen([]byte{}, event.failure, []byte(l.own.key))
			return leaseResult{failure: failure}
		}
	case <-expiry.C:
		s.dropEndless(l)
	case <-ctx.Done():
	}
	return leaseResult{}
}

// dropEndless deletes a lease that no replica has taken: its TTL is longer than any of theirs, and all would wait for its end.
func (s *sharedStore) dropEndless(l *lookup) {
	const script = `local left = redis.call('pttl', KEYS[1]) if left == -1 or left > tonumber(ARGV[1]) then redis.call('del', KEYS[1]) end return left`
	s.try(context.Background(), s.limits.background, func(ctx context.Context) error {
		return s.client.Eval(ctx, script, []string{l.lease}, s.limits.held.Milliseconds()).Err()
	})
}

const renewLua = `if redis.pcall('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`

// renew extends the lease at intervals until stop is called. The token fences it: a lease that has expired and gone to another
// replica is left alone. Most fills end before the first renewal, so no goroutine waits for it. settled waits for a renewal in flight
// when stop is called: no request may wait for an unresponsive Redis to answer it.
func (s *sharedStore) renew(ctx context.Context, l *lookup, token string) (stop, settled func()) {
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.Mutex // held during a renewal; guards next
	var next *time.Timer
	renew := func() {
		renewing.Lock()
		defer renewing.Unlock()
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		s.try(ctx, s.limits.held-s.limits.renewal, func(ctx context.Context) error {
			return s.client.Eval(ctx, renewLua, []string{l.lease}, token, s.limits.held.Milliseconds()).Err()
		})
		next.Reset(max(0, s.limits.renewal-time.Since(began)))
	}
	renewing.Lock()
	defer renewing.Unlock()
	next = time.AfterFunc(s.limits.renewal, renew)
	return cancel, func() {
		renewing.Lock()
		defer renewing.Unlock()
		next.Stop()
	}
}

// publish stores the filled entry, releases the lease and publishes the event, in this order. It ignores the fill's context: a
// graceful shutdown releases its leases, so no replica waits for them to expire.
func (s *sharedStore) publish(l *lookup, o *outcome) {
	if o.status != Filled && o.token == "" {
		return // nothing to store, and no replica waits for this one
	}
	event := fillEvent{kind: fillDone}
	switch {
	case o.shared:
		event = fillEvent{kind: fillFailed, failure: s.sealer.AppendSeal(nil, o.encoded, []byte(l.own.key))}
	case o.err != nil:
		event = fillEvent{kind: fillReleased}
	}
	done := redisrows.Outcome{
		Key: l.own.redisKey, Account: l.AccountID, Lease: l.lease, Token: o.token, Channel: fillChannel,
		Event: event.encode(l.own.redisKey), Refused: fillEvent{kind: fillReleased}.encode(l.own.redisKey),
	}
	if o.err == nil && o.status == Filled {
		done.Value = s.codec.encode(o.entry)
		done.Age = max(0, s.now().Sub(o.entry.filled))
	}
	s.try(context.Background(), s.limits.background, func(ctx context.Context) error { return s.rows.Publish(ctx, &done) })
	// A waiter in this process does not depend on the subscription.
	s.events.deliver(l.own.redisKey, event)
}
