package policy

import (
	"sync"
	"time"
)

// A MemoryBudget is a Budget that counts in this process. A single replica uses it alone, and it is exact. RedisBudget keeps
// in one what this replica has admitted and what it has seen of the shared counts (see ledger.go), and falls back on it while
// Redis is down; it then admits only this replica's share of what is left of each allowance.
type MemoryBudget struct {
	now    func() time.Time
	shares func() int // how many replicas share each limit on requests
	halved int        // how many times as many shares a limit on upstream calls has

	mu         sync.Mutex // guards everything below
	accounts   map[string]*account
	properties map[string]tokenBucket
	leases     map[string]*lease // by key; see lease.go
	latest     hour              // the latest hour that the clock has shown
	outage     int               // counts the outages of Redis
}

// An account is the state of one account.
type account struct {
	counts
	base    base                 // of this replica's shares
	limits  Plan                 // the latest
	buckets map[string]keyBucket // by key
	leases  int                  // of its keys
}

// The counts of an account.
type counts struct {
	used   UsageCount // what this process has admitted
	synced UsageCount // the part of used that a UsageStore, or Redis, already has
	seen   UsageCount // what all replicas have used as far as is known, with synced and without the rest of used
	leased UsageCount // the part of used without synced that Redis has leased to this replica
	beyond UsageCount // how much of that is known to be reported as beyond a limit
	loaded UsageCount // the part of seen that is in a ReplicaStore, and was not in Redis when this replica started
}

// total is what all replicas have used, as far as is known.
func (c *counts) total() UsageCount {
	total := c.seen
	total.add(c.used.minus(c.synced))
	total.Calls = max(0, total.Calls)
	return total
}

// isSynced reports whether nothing was used since the last sync.
func (c *counts) isSynced() bool {
	return c.used.minus(c.synced) == UsageCount{AccountID: c.used.AccountID, Hour: c.used.Hour, Day: c.used.Day}
}

// A base is the state of an account at the beginning of an outage. It stays until Redis is in use again, so that a share is not
// divided once more after a part of it was synced.
type base struct {
	outage     int // which one
	used, seen UsageCount
}

// A keyBucket is the token bucket of one key.
type keyBucket struct {
	bucket tokenBucket
	shared tokenBucket // as Redis last showed it
}

var _ Budget = (*MemoryBudget)(nil)

// NewMemoryBudget returns a budget that grants every account its whole allowance.
func NewMemoryBudget(now func() time.Time) *MemoryBudget {
	return newMemoryBudget(now, func() int { return 1 }, 1)
}

func newMemoryBudget(now func() time.Time, shares func() int, halved int) *MemoryBudget {
	return &MemoryBudget{now: now, shares: shares, halved: halved, accounts: map[string]*account{}, properties: map[string]tokenBucket{},
		leases: map[string]*lease{}}
}

// divide returns one of equal shares of a rate, at least one: a bucket of none would lock every key out.
func divide(limit, shares int) int {
	if limit == 0 {
		return 0
	}
	return max(1, limit/shares)
}

// worthAnotherTry bounds how long a client waits after a refusal by a share: the shared counters may be back by then.
const worthAnotherTry = time.Minute

// refuse returns a refusal unless n more fit into this replica's share, of which local are used: (limit - seen) / shares. The window of
// the ceiling ends after left.
func refuse(c Ceiling, limit, seen, local, n, shares int, left time.Duration) *Refusal {
	share := (limit - seen) / shares
	switch {
	case local+n <= share:
		return nil
	case seen+local+n > limit:
		return &Refusal{Ceiling: c, Limit: limit, RetryAfter: left}
	}
	return &Refusal{Ceiling: c, Limit: limit, RetryAfter: min(left, worthAnotherTry), ByShare: true, Share: share}
}

// refuseRate returns the refusal of a ceiling that is a token bucket.
func refuseRate(c Ceiling, limit, shares int, wait time.Duration) *Refusal {
	return &Refusal{Ceiling: c, Limit: limit, RetryAfter: wait, ByShare: shares > 1, Share: divide(limit, shares)}
}

// Admit implements Budget.
func (b *MemoryBudget) Admit(accountID, keyID string, p Plan) (Usage, *Refusal) {
	now, shares := b.now(), b.shares()
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(accountID, now)
	a.limits = p
	key := a.buckets[keyID]
	after, wait := key.bucket.take(now, 1, divide(p.RequestsPerMinutePerKey, shares))
	// Of several exhausted ceilings, report the one that lasts longest, so that a client that waits does not hit the next.
	var refusal *Refusal
	if wait > 0 {
		refusal = refuseRate(KeyMinute, p.RequestsPerMinutePerKey, shares, wait)
	}
	seen, local := b.share(a)
	if r := refuse(AccountHour, p.RequestsPerHour, seen.InHour, local.InHour, 1, shares, b.latest.end().Sub(now)); r != nil && r.RetryAfter >= wait {
		refusal, wait = r, r.RetryAfter
	}
	if r := refuse(AccountDay, p.RequestsPerDay, seen.InDay, local.InDay, 1, shares, b.latest.endOfDay().Sub(now)); r != nil && r.RetryAfter >= wait {
		refusal = r
	}
	key.bucket = after // if the bucket refused, after is only clamped
	if refusal == nil {
		a.used.InHour++
		a.used.InDay++
	}
	if refusal == nil || refusal.Ceiling == KeyMinute {
		a.buckets[keyID] = key
	}
	total := a.total()
	return total.usage(now), refusal
}

// ChargeMinute implements Budget.
func (b *MemoryBudget) ChargeMinute(accountID, keyID string, p Plan) (Usage, *Refusal) {
	now, shares, limit := b.now(), b.shares(), p.minuteOnly().RequestsPerMinutePerKey
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(accountID, now)
	key := a.buckets[keyID]
	after, wait := key.bucket.take(now, 1, divide(limit, shares))
	key.bucket = after
	a.buckets[keyID] = key
	total := a.total()
	if wait > 0 {
		return total.usage(now), refuseRate(KeyMinute, limit, shares, wait)
	}
	return total.usage(now), nil
}

// ChargeLiveCalls implements Budget.
func (b *MemoryBudget) ChargeLiveCalls(accountID, propertyID string, calls int, p Plan) *Refusal {
	now, shares := b.now(), b.halved*b.shares()
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(accountID, now)
	a.limits = p
	after, wait := b.properties[propertyID].take(now, calls, divide(p.LiveCallsPerMinutePerProperty, shares))
	seen, local := b.share(a)
	if r := refuse(AccountCalls, p.SearchConsoleCallsPerDay, seen.Calls, local.Calls, calls, shares, b.latest.endOfDay().Sub(now)); r != nil {
		return r
	}
	b.properties[propertyID] = after
	if wait > 0 {
		return refuseRate(PropertyMinute, p.LiveCallsPerMinutePerProperty, shares, wait)
	}
	a.used.Calls += calls
	return nil
}

// RefundLiveCalls implements Budget.
func (b *MemoryBudget) RefundLiveCalls(accountID string, calls int, charged time.Time) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(accountID, now)
	total := a.total()
	a.used.add(refundCount(accountID, min(calls, total.Calls), charged))
}

// Usage implements Budget.
func (b *MemoryBudget) Usage(accountID string) Usage {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	total := b.account(accountID, now).total()
	return total.usage(now)
}

// share returns what was seen of all replicas when the outage began, and what this replica has admitted since. The caller holds
// the lock.
func (b *MemoryBudget) share(a *account) (seen, local UsageCount) {
	if a.base.outage != b.outage {
		a.base = base{outage: b.outage, used: a.synced, seen: a.seen}
	}
	seen, local = a.base.seen, a.used.minus(a.base.used)
	seen.advanceTo(b.latest)
	return seen, local
}

// beginOutage makes the shares those of what is left now.
func (b *MemoryBudget) beginOutage() {
	b.dropLeases()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outage++
}

// account returns an account with its windows advanced to now. The caller holds the lock.
func (b *MemoryBudget) account(id string, now time.Time) *account {
	// If the clock moves back, stay in the later window: the earlier one's allowance has been granted already.
	if h := hourOf(now); h > b.latest {
		b.latest = h
		b.sweep(now)
	} else if h < b.latest-mostAhead {
		b.goBack(h)
	}
	a := b.accounts[id]
	if a == nil {
		none := UsageCount{AccountID: id}
		a = &account{counts: counts{none, none, none, none, none, none}, buckets: map[string]keyBucket{}}
		b.accounts[id] = a
	}
	for _, c := range [...]*UsageCount{&a.used, &a.seen, &a.leased, &a.beyond, &a.loaded} {
		c.advanceTo(b.latest)
	}
	return a
}

// mostAhead is by how much the windows may be ahead of the clock, so that one that is behind for some hours grants nothing twice.
const mostAhead hour = 24

// goBack makes the windows follow a clock that was far ahead, which otherwise would not end until it gets there again. What was counted in
// them remains counted. The caller holds the lock.
func (b *MemoryBudget) goBack(h hour) {
	b.latest = h
	for _, a := range b.accounts {
		for _, c := range [...]*UsageCount{&a.used, &a.synced, &a.seen, &a.leased, &a.beyond, &a.loaded, &a.base.used, &a.base.seen} {
			c.goBackTo(h)
		}
	}
}

// sweep frees, once an hour, full buckets and accounts that have not been used today.
func (b *MemoryBudget) sweep(now time.Time) {
	for id, bucket := range b.properties {
		if bucket.isFull(now) {
			delete(b.properties, id)
		}
	}
	for id, a := range b.accounts {
		for key, of := range a.buckets {
			if of.bucket.isFull(now) {
				delete(a.buckets, key)
			}
		}
		// A bucket that is not full outlives its day, or midnight would refill the minute.
		if a.used.Day < b.latest.day() && len(a.buckets) == 0 && a.leases == 0 {
			delete(b.accounts, id)
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

// unsynced returns the accounts whose usage differs from what was synced. Those with leases are left out: their next round trip
// reports it.
func (b *MemoryBudget) unsynced() []ledgerEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ahead []ledgerEntry
	for _, a := range b.accounts {
		if !a.isSynced() && a.leases == 0 {
			ahead = append(ahead, b.entry(a))
		}
	}
	return ahead
}

// markStored records that a UsageStore has c, which is all that was used. What was used since c was read stays unsynced.
func (b *MemoryBudget) markStored(c UsageCount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.accounts[c.AccountID]; a != nil {
		a.synced, a.seen = c, c // this process is the only one
	}
}
