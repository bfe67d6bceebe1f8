package policy

import (
	"context"
	"sync"
	"time"
)

// Local is a Budget that counts in the memory of this process. By itself it is exact for one process; as one of several
// replicas that cannot reach their shared counter it gives out its share only.
type MemoryBudget struct {
	now       func() time.Time
	share     int // each ceiling on requests is divided by this
	liveShare int // each ceiling on upstream calls likewise

	mu         sync.Mutex // guards what follows
	accounts   map[string]*account
	properties map[string]bucket
	latest     hour // the latest that the clock has shown
}

// account is what Local knows of one account.
type account struct {
	used    UsageCount
	kept    UsageCount        // what somebody else has of it: a Ledger, or Redis
	buckets map[string]bucket // by key
}

var _ Budget = (*MemoryBudget)(nil)

// NewMemoryBudget returns a counter with the whole allowance of every account.
func NewMemoryBudget(now func() time.Time) *MemoryBudget { return newMemoryBudget(now, 1, 1) }

func newMemoryBudget(now func() time.Time, share, liveShare int) *MemoryBudget {
	return &MemoryBudget{now: now, share: share, liveShare: liveShare, accounts: map[string]*account{}, properties: map[string]bucket{}}
}

// divide is the part of a limit that one of so many shares has: at least one, so that no replica turns everybody away.
func divide(limit, shares int) int {
	if limit == 0 {
		return 0
	}
	return max(1, limit/shares)
}

// Admit implements Budget.
func (l *MemoryBudget) Admit(_ context.Context, accountID, keyID string, p Plan) (Usage, *Refusal) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(accountID, now)
	after, wait := a.buckets[keyID].take(now.UnixMicro(), 1, divide(p.RequestsPerMinutePerKey, l.share))
	// Of several ceilings the one that lasts longest is named, so that nobody waits for one only to run into the next.
	var refusal *Refusal
	if wait > 0 {
		refusal = &Refusal{KeyMinute, p.RequestsPerMinutePerKey, wait}
	}
	if left := l.latest.end().Sub(now); a.used.InHour >= divide(p.RequestsPerHour, l.share) && left >= wait {
		refusal = &Refusal{AccountHour, p.RequestsPerHour, left}
	}
	if left := l.latest.endOfDay().Sub(now); a.used.InDay >= divide(p.RequestsPerDay, l.share) && left >= wait {
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

// ChargeLiveCalls implements Budget.
func (l *MemoryBudget) ChargeLiveCalls(_ context.Context, accountID, propertyID string, calls int, p Plan) *Refusal {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(accountID, now)
	after, wait := l.properties[propertyID].take(now.UnixMicro(), calls, divide(p.LiveCallsPerMinutePerProperty, l.liveShare))
	switch {
	case a.used.Calls+calls > divide(p.SearchConsoleCallsPerDay, l.liveShare):
		return &Refusal{AccountCalls, p.SearchConsoleCallsPerDay, l.latest.endOfDay().Sub(now)}
	case wait > 0:
		l.properties[propertyID] = after
		return &Refusal{PropertyMinute, p.LiveCallsPerMinutePerProperty, wait}
	}
	l.properties[propertyID] = after
	a.used.Calls += calls
	return nil
}

// RefundLiveCalls implements Budget.
func (l *MemoryBudget) RefundLiveCalls(_ context.Context, accountID string, calls int, charged time.Time) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	used := &l.account(accountID, now).used
	used.add(returned(accountID, min(calls, used.Calls), charged))
}

// Usage implements Budget.
func (l *MemoryBudget) Usage(_ context.Context, accountID string) Usage {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.account(accountID, now).used.usage(now)
}

// account returns an account, its windows moved on to now. The caller holds the lock.
func (l *MemoryBudget) account(id string, now time.Time) *account {
	// A clock that is set back stays in the later window: going back would give that window's allowance out again.
	if h := hourOf(now); h > l.latest {
		l.latest = h
		l.sweep(now)
	}
	a := l.accounts[id]
	if a == nil {
		a = &account{used: UsageCount{AccountID: id}, kept: UsageCount{AccountID: id}, buckets: map[string]bucket{}}
		l.accounts[id] = a
	}
	a.used.moveTo(l.latest)
	return a
}

// sweep throws away, once an hour, what counts no more: buckets that are full, and accounts whose day is over.
func (l *MemoryBudget) sweep(now time.Time) {
	sweepBuckets(l.properties, now)
	for id, a := range l.accounts {
		sweepBuckets(a.buckets, now)
		// A bucket in use outlives the day, or midnight would give out the minute again.
		if a.used.Day < l.latest.day() && len(a.buckets) == 0 {
			delete(l.accounts, id)
		}
	}
}

func sweepBuckets(buckets map[string]bucket, now time.Time) {
	for id, b := range buckets {
		if int64(b) <= now.UnixMicro() {
			delete(buckets, id)
		}
	}
}

// add adds to what an account used, or takes away, as far as it is of the present windows.
func (l *MemoryBudget) add(c UsageCount) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(c.AccountID, now).used.add(c)
}

// A change is what an account has used, and what of that is kept elsewhere.
type change struct{ used, kept UsageCount }

// changes returns the accounts that have used more, or less, than is kept elsewhere.
func (l *MemoryBudget) changes() []change {
	l.mu.Lock()
	defer l.mu.Unlock()
	var changes []change
	for _, a := range l.accounts {
		if a.used.since(a.kept) != (UsageCount{AccountID: a.used.AccountID, Hour: a.used.Hour, Day: a.used.Day}) {
			changes = append(changes, change{a.used, a.kept})
		}
	}
	return changes
}

// keep notes that c is kept elsewhere. What was used since then stays a change.
func (l *MemoryBudget) keep(c UsageCount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[c.AccountID]; a != nil {
		a.kept = c
	}
}
