package policy

import (
	"maps"
	"slices"
	"time"
)

// This file is the part of MemoryBudget that makes counts in Redis survive a loss. A replica keeps what it has admitted itself
// (used), also through Redis. Redis keeps the same number for each replica, in addition to the sum of all. So if Redis has less of a
// replica than that replica has, then it has lost requests, or was away when they were admitted; the replica adds the
// difference, and no request counts twice, whichever copy of its data Redis came back with. The first to do so also raises the
// sum to what it has seen of it (seen), which stands for the requests of the others until they restore them, and for those of
// replicas that have ended until the window ends. What a replica admitted while Redis was away (used without synced) is always
// added, since what others have seen cannot include it, unless one of them has brought it to Redis (brought; see shares.go).

// windowShift places the number of a day or an hour above a count, so that counts of later windows compare as greater. Counts
// stay below it, because limits do.
const windowShift = 31

func packed(window int64, count int) int64 { return window<<windowShift | int64(count) }

// marks are what a script needs to notice a loss: what this replica has admitted today, and what it knows to be admitted by all,
// both packed with the day; a count of zero is 0. What was admitted from leases since is no loss: leasedDay has its number of the day,
// and leasedHour that of the hour, packed with it.
type marks struct{ ownDay, knownDay, leasedDay, leasedHour int64 }

// marks returns the marks of an account.
func (b *MemoryBudget) marks(accountID string) (m marks) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.accounts[accountID]
	if a == nil {
		return m
	}
	a = b.account(accountID, now)
	if a.used.InDay > 0 {
		m.ownDay = packed(a.used.Day, a.used.InDay)
	}
	if total := a.total().minus(a.loaded); total.InDay > 0 {
		m.knownDay = packed(total.Day, total.InDay)
	}
	m.leasedDay, m.leasedHour = int64(a.leased.InDay), packed(a.used.Hour, a.leased.InHour)
	return m
}

// callMarks returns what this replica has charged and returned today of an account's calls, packed with the day.
func (b *MemoryBudget) callMarks(accountID string) (charged, returned int64) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.accounts[accountID]; a == nil || a.used.Returned == 0 && a.used.Calls == 0 {
		return 0, 0
	}
	a := b.account(accountID, now)
	return packed(a.used.Day, a.used.charged()), packed(a.used.Day, a.used.Returned)
}

// A keyState is the bucket of a key as Redis shows it, and how many of its requests Redis was asked to lease, and has leased.
type keyState struct {
	id             string
	bucket         tokenBucket
	asked, granted int
}

// A verdict is what Redis has decided about requests of an account.
type verdict struct {
	own      int64 // how many of this replica's requests it had before, packed with the day
	admitted int   // of these requests
	total    Usage // of the account, with them, by the clock of Redis
}

// admitted records a verdict, and copies of what Redis shows of the keys. It returns what Redis does not know: what was admitted from leases
// in the meantime.
func (b *MemoryBudget) admitted(accountID string, p *Plan, v verdict, keys []keyState) (unknown UsageCount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, now, n := b.accounts[accountID], v.total.At, v.admitted
	if a == nil && n == 0 && v.total.RequestsToday == 0 && v.total.CallsToday == 0 && len(keys) == 0 {
		return unknown // nothing to remember
	}
	a = b.account(accountID, now)
	if p.RequestsPerHour != unlimited && len(keys) > 0 {
		a.limits = *p
	}
	before := a.used
	a.used.InHour += n
	a.used.InDay += n
	has := UsageCount{Hour: a.used.Hour, Day: a.used.Day, InHour: before.InHour + n, InDay: n}
	if v.own>>windowShift == a.used.Day {
		has.InDay += int(v.own & (1<<windowShift - 1))
	}
	// Redis has more if the reply to a batch was lost.
	has.InDay = min(has.InDay, a.used.InDay)
	// What was admitted locally in the meantime is of this hour, unless that has just begun.
	has.InHour -= min(before.InHour, before.InDay-(has.InDay-n))
	a.markShared(has)
	a.see(v.total)
	for i := range keys {
		key := &keys[i]
		a.buckets[key.id] = keyBucket{key.bucket, key.bucket}
		b.granted(a, key, now)
	}
	return a.used.minus(a.synced)
}

// charged records that Redis changed the calls of an account's day by calls, negative if they were returned, to total.
func (b *MemoryBudget) charged(accountID string, now time.Time, calls, total int, p *Plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(accountID, now)
	if p != nil {
		a.limits = *p
	}
	change := UsageCount{Hour: a.used.Hour, Day: a.used.Day, Calls: calls, Returned: max(0, -calls)}
	a.synced.advanceTo(b.latest)
	a.used.add(change)
	a.synced.add(change)
	a.seen.Calls = max(total, a.synced.Calls)
}

// markShared records that Redis has the part of used that has counts.
func (a *account) markShared(has UsageCount) {
	a.synced.advanceTo(hour(a.used.Hour))
	has.Calls, has.Returned = a.synced.Calls, a.synced.Returned
	a.synced.raise(has)
	a.leased.lower(a.used.minus(a.synced))
}

// see records a usage that Redis has shown.
func (a *account) see(total Usage) {
	a.seen.InHour = max(a.seen.InHour, total.RequestsThisHour)
	a.seen.InDay = max(a.seen.InDay, total.RequestsToday)
	a.seen.Calls = max(total.CallsToday, a.synced.Calls) // without what Redis has lost
}

// brought records that another replica has brought to Redis what this one had used: others may have seen it there.
func (b *MemoryBudget) brought(used UsageCount) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(used.AccountID, now)
	a.synced.advanceTo(hour(a.used.Hour))
	before := a.synced
	a.synced.raise(used)
	a.seen.add(a.synced.minus(before))
	a.leased.lower(a.used.minus(a.synced))
}

// A ledgerEntry is what Redis needs to restore the counts of one account.
type ledgerEntry struct {
	counts
	replica string // whose; empty: of this one
	limits  Plan
	keys    []drainedKey
}

// A drainedKey is a key's bucket as Redis last showed it, and the microseconds by which it is full later because of what this
// replica has taken from its share of it since.
type drainedKey struct {
	id      string
	shared  tokenBucket
	drained int64
}

// entry copies an account. The caller holds the lock.
func (b *MemoryBudget) entry(a *account) ledgerEntry {
	e := ledgerEntry{counts: a.counts, limits: a.limits}
	now := tokenBucket(b.now().UnixMicro())
	for id, key := range a.buckets {
		drained := max(key.bucket, now) - max(key.shared, now)
		e.keys = append(e.keys, drainedKey{id, key.shared, int64(max(0, drained)) / int64(b.shares())})
	}
	return e
}

// ledger returns the entries of the accounts. If none is named, these are all without leases: the next round trip for one with leases
// compares it anyway. Accounts that this replica has not used are left out.
func (b *MemoryBudget) ledger(accountIDs ...string) []ledgerEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := len(accountIDs) == 0
	if all {
		accountIDs = slices.Collect(maps.Keys(b.accounts))
	}
	var entries []ledgerEntry
	for _, id := range accountIDs {
		if a := b.accounts[id]; a != nil && !(all && a.leases > 0) {
			entries = append(entries, b.entry(a))
		}
	}
	return entries
}

// restored records that Redis has all of an entry, that it then showed a total, and what is reported as beyond a limit.
func (b *MemoryBudget) restored(e ledgerEntry, now time.Time, total Usage, beyond UsageCount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.account(e.used.AccountID, now)
	// Others may not have restored what is theirs. So what was known before, and was admitted locally, still counts.
	before := e.total()
	a.synced.advanceTo(hour(a.used.Hour))
	a.synced.raise(e.used)
	a.leased.lower(a.used.minus(a.synced))
	a.seen.raise(UsageCount{Hour: before.Hour, Day: before.Day, InHour: before.InHour, InDay: before.InDay})
	a.see(total)
	beyond.Hour, beyond.Day = a.used.Hour, a.used.Day
	a.beyond.raise(beyond)
	for _, key := range e.keys {
		if at, ok := a.buckets[key.id]; ok {
			at.shared = at.bucket
			a.buckets[key.id] = at
		}
	}
}
