package policy

import "time"

// This file is the part of MemoryBudget that keeps leases. A key is hot if several of its requests wait for one round trip. This
// replica then leases more of its requests than these from Redis, and admits the next ones from the lease, without a wait. Redis
// counts what is leased against every limit, like what is used, so replicas together never exceed one. With the next round trip
// for the account, a replica reports what it has used of its leases. It returns what it has not used within leaseUse. If it does
// neither, because it has crashed, Redis counts the lease as used a second after the account's last one was granted.
//
// Redis leases only while every limit is far away, see admit.lua. So it is rare that a request does not fit because of what another
// replica has leased and does not need; such a request waits until that is returned, see batcher.

const (
	hotRequests = 2   // of one key in one round trip: two clients at least, so that one alone sees each of its requests counted at once
	firstLease  = 8   // how many times as many are leased first, and whenever that was too few
	maxLease    = 512 // requests of one key
	maxLeases   = maxBatch

	// leastLeased is how much of each limit must be left for Redis to lease: it leases a 64th of what is left, and no less than 8 requests.
	leastLeased = 64 * 8

	leaseUse    = 20 * time.Millisecond  // how long a lease is used after Redis has granted or extended it
	leaseReturn = 500 * time.Millisecond // how long its rest can be returned: half of the time after which Redis counts it as used
)

// A lease is the requests of one key that this replica can admit without asking Redis.
type lease struct {
	accountID string
	plan      Plan      // whose limits Redis has compared
	left      int       // leased and not used
	size      int       // how many to have left after a round trip
	granted   time.Time // the last of them, by the clock of Redis
	asked     bool      // Redis will be asked for more
	ending    bool      // the rest is being returned
}

// isOver reports whether the lease must not be used any more. One that was granted in the future, because the clock of Redis was set back, is over.
func (l *lease) isOver(now time.Time) bool {
	age := now.Sub(l.granted)
	return age < 0 || age >= leaseUse
}

// takeRest takes what is left, and returns how much of it to return to Redis.
func (l *lease) takeRest(now time.Time) int {
	rest := l.left
	if l.left = 0; now.Sub(l.granted) >= leaseReturn {
		return 0
	}
	return rest
}

// canLease reports whether Redis would ever lease requests of a plan.
func (p *Plan) canLease() bool {
	return min(p.RequestsPerMinutePerKey, p.RequestsPerHour, p.RequestsPerDay) >= leastLeased
}

// take admits a request from the lease of its key; ok reports whether it could. low means that the caller has to ask for more.
func (b *MemoryBudget) take(accountID, keyID string, p *Plan) (usage Usage, ok, low bool) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.leases[keyID]
	if l == nil || l.left == 0 || l.isOver(now) || l.plan != *p {
		return Usage{}, false, false
	}
	a := b.account(accountID, now)
	for _, c := range [...]*UsageCount{&a.used, &a.leased} {
		c.InHour++
		c.InDay++
	}
	l.left--
	low = !l.asked && (l.left < l.size/2 || now.Sub(l.granted) > leaseUse/2)
	l.asked = l.asked || low
	total := a.total()
	return total.usage(now), true, low
}

// ask returns how many requests of a key to lease in the next round trip, which decides on some that wait. It is negative to return
// the rest of a lease that is over.
func (b *MemoryBudget) ask(accountID, keyID string, p *Plan, waiting int) int {
	if !p.canLease() {
		return 0
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.leases[keyID]
	switch {
	case l == nil && (waiting < hotRequests || len(b.leases) == maxLeases):
		return 0
	case l == nil:
		l = &lease{accountID: accountID, plan: *p}
		b.leases[keyID] = l
		b.account(accountID, now).leases++
	case l.ending:
		return 0
	case l.left > 0 && (l.isOver(now) || l.plan != *p):
		return -l.takeRest(now)
	case waiting == 0 && !l.asked:
		return 0
	}
	if l.plan, l.asked = *p, true; waiting > 0 { // so it was too small
		l.size = min(max(2*l.size, firstLease*waiting), maxLease)
	}
	return l.size - l.left
}

// granted records the reply to ask, or that the end of the lease has reached Redis. The caller holds the lock.
func (b *MemoryBudget) granted(a *account, key *keyState, now time.Time) {
	l := b.leases[key.id]
	switch {
	case l == nil:
	case l.ending:
		delete(b.leases, key.id)
		a.leases--
	case key.asked > 0:
		l.asked = false
		if key.granted > 0 {
			l.left += key.granted
			l.granted = now
		}
	}
}

// endLeases ends the leases that were last granted at least so long ago. It returns an admission for each, which reports what was used
// of the lease and returns the rest.
func (b *MemoryBudget) endLeases(age time.Duration) (ends []*admission) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for keyID, l := range b.leases {
		if l.isOver(now) || now.Sub(l.granted) >= age {
			l.ending = true
			ends = append(ends, &admission{accountID: l.accountID, keyID: keyID, plan: l.plan, leaseOnly: true, lease: -l.takeRest(now)})
		}
	}
	return ends
}

// forfeit gives up what is left of the leases of an account, because Redis has lost some of its counts, and perhaps these.
func (b *MemoryBudget) forfeit(accountID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.leases {
		if l.accountID == accountID {
			l.left = 0
		}
	}
}

// dropLeases forgets all leases, because Redis is away.
func (b *MemoryBudget) dropLeases() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.leases {
		if a := b.accounts[l.accountID]; a != nil {
			a.leases = 0
		}
	}
	clear(b.leases)
}

// isLeasing reports whether there are leases.
func (b *MemoryBudget) isLeasing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.leases) > 0
}
