package policy

import (
	"context"
	"sync"
	"time"
)

// A MemoryBudget is a Budget that counts in this process. A single replica uses it alone, and it is exact. RedisBudget falls
// back on one while Redis is down; it then admits only this replica's share of each allowance.
type MemoryBudget struct {
	now       func() time.Time
	share     int // each limit on requests is divided by this
	liveShare int // each limit on upstream calls is divided by this

	mu         sync.Mutex // guards everything below
	accounts   map[string]*account
	properties map[string]tokenBucket
	latest     hour // the latest hour that the clock has shown
}

// An account is the state of one account.
type account struct {
	used    UsageCount
	synced  UsageCount             // the part of used that a UsageStore, or Redis, already has
	buckets map[string]tokenBucket // by key
}

var _ Budget = (*MemoryBudget)(nil)

// NewMemoryBudget returns a budget that grants every account its whole allowance.
func NewMemoryBudget(now func() time.Time) *MemoryBudget { return newMemoryBudget(now, 1, 1) }

func newMemoryBudget(now func() time.Time, share, liveShare int) *MemoryBudget {
	return &MemoryBudget{now: now, share: share, liveShare: liveShare, accounts: map[string]*account{}, properties: map[string]tokenBucket{}}
}

// divide returns one of equal shares of a limit, at least one: zero would lock every account out.
func divide(limit, shares int) int {
	if limit == 0 {
		return 0
	}
	return max(1, limit/shares)
}

// Admit implements Budget.
func (b *MemoryBudget) Admit(_ context.Context, accountID, keyID string, p Plan) (Usage, *Refusal) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(accountID, now)
	after, wait := a.buckets[keyID].take(now, 1, divide(p.RequestsPerMinutePerKey, b.share))
	// Of several exhausted ceilings, report the one that lasts longest, so that a client that waits does not hit the next.
	var refusal *Refusal
	if wait > 0 {
		refusal = &Refusal{KeyMinute, p.RequestsPerMinutePerKey, wait}
	}
	if left := b.latest.end().Sub(now); a.used.InHour >= divide(p.RequestsPerHour, b.share) && left >= wait {
		refusal = &Refusal{AccountHour, p.RequestsPerHour, left}
	}
	if left := b.latest.endOfDay().Sub(now); a.used.InDay >= divide(p.RequestsPerDay, b.share) && left >= wait {
		refusal = &Refusal{AccountDay, p.RequestsPerDay, left}
	}
	if refusal == nil || wait > 0 {
		a.buckets[keyID] = after
	}
	if refusal == nil {
		a.used.InHour++
		a.used.InDay++
	}
	return a.used.usage(now), refusal
}

// ChargeMinute implements Budget.
func (b *MemoryBudget) ChargeMinute(_ context.Context, accountID, keyID string, p Plan) (Usage, *Refusal) {
	now, limit := b.now(), p.minuteOnly().RequestsPerMinutePerKey
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(accountID, now)
	after, wait := a.buckets[keyID].take(now, 1, divide(limit, b.share))
	a.buckets[keyID] = after
	if wait > 0 {
		return a.used.usage(now), &Refusal{KeyMinute, limit, wait}
	}
	return a.used.usage(now), nil
}

// ChargeLiveCalls implements Budget.
func (b *MemoryBudget) ChargeLiveCalls(_ context.Context, accountID, propertyID string, calls int, p Plan) *Refusal {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(accountID, now)
	after, wait := b.properties[propertyID].take(now, calls, divide(p.LiveCallsPerMinutePerProperty, b.liveShare))
	switch {
	case a.used.Calls+calls > divide(p.SearchConsoleCallsPerDay, b.liveShare):
		return &Refusal{AccountCalls, p.SearchConsoleCallsPerDay, b.latest.endOfDay().Sub(now)}
	case wait > 0:
		b.properties[propertyID] = after
		return &Refusal{PropertyMinute, p.LiveCallsPerMinutePerProperty, wait}
	}
	b.properties[propertyID] = after
	a.used.Calls += calls
	return nil
}

// RefundLiveCalls implements Budget.
func (b *MemoryBudget) RefundLiveCalls(_ context.Context, accountID string, calls int, charged time.Time) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	used := &b.account(accountID, now).used
	used.add(refundCount(accountID, min(calls, used.Calls), charged))
}

// Usage implements Budget.
func (b *MemoryBudget) Usage(_ context.Context, accountID string) Usage {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.account(accountID, now).used.usage(now)
}

// account returns an account with its windows advanced to now. The caller holds the lock.
func (b *MemoryBudget) account(id string, now time.Time) *account {
	// If the clock moves back, stay in the later window: the earlier one's allowance has been granted already.
	if h := hourOf(now); h > b.latest {
		b.latest = h
		b.sweep(now)
	}
	a := b.accounts[id]
	if a == nil {
		a = &account{used: UsageCount{AccountID: id}, synced: UsageCount{AccountID: id}, buckets: map[string]tokenBucket{}}
		b.accounts[id] = a
	}
	a.used.advanceTo(b.latest)
	return a
}

// sweep frees, once an hour, full buckets and accounts that have not been used today.
func (b *MemoryBudget) sweep(now time.Time) {
	sweepBuckets(b.properties, now)
	for id, a := range b.accounts {
		sweepBuckets(a.buckets, now)
		// A bucket that is not full outlives its day, or midnight would refill the minute.
		if a.used.Day < b.latest.day() && len(a.buckets) == 0 {
			delete(b.accounts, id)
		}
	}
}

func sweepBuckets(buckets map[string]tokenBucket, now time.Time) {
	for id, bucket := range buckets {
		if bucket.isFull(now) {
			delete(buckets, id)
		}
	}
}

// add adds a count, positive or negative, to the account's current windows.
func (b *MemoryBudget) add(c UsageCount) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account(c.AccountID, now).used.add(c)
}

// unsynced is the usage of an account that a UsageStore, or Redis, does not have yet.
type unsynced struct{ used, synced UsageCount }

// unsynced returns the accounts whose usage differs from what was synced.
func (b *MemoryBudget) unsynced() []unsynced {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ahead []unsynced
	for _, a := range b.accounts {
		if a.used.minus(a.synced) != (UsageCount{AccountID: a.used.AccountID, Hour: a.used.Hour, Day: a.used.Day}) {
			ahead = append(ahead, unsynced{a.used, a.synced})
		}
	}
	return ahead
}

// markSynced records that c has been stored. What was used since c was read stays unsynced.
func (b *MemoryBudget) markSynced(c UsageCount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.accounts[c.AccountID]; a != nil {
		a.synced = c
	}
}
