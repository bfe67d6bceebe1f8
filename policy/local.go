package policy

import (
	"context"
	"sync"
	"time"
)

// Local is a Budget that counts in the memory of this process. By itself it is exact for one process; as one of several
// replicas that cannot reach their shared counter it gives out its share only.
type Local struct {
	now       func() time.Time
	share     int // each ceiling on requests is divided by this
	liveShare int // each ceiling on upstream calls likewise

	mu         sync.Mutex // guards what follows
	accounts   map[string]*ledger
	properties map[string]bucket
	swept      window // the hour in which what is over was last thrown away
}

// ledger is what one account has used in the windows hour and day.
type ledger struct {
	hour, day            window
	inHour, inDay, calls int
	buckets              map[string]bucket // by key
	unsaved              bool
}

// Count is what an account used in one hour and one day: windows in hours and days since 1970.
type Count struct {
	AccountID string
	Hour, Day int64
	InHour    int // requests in the hour
	InDay     int // requests on the day
	Calls     int // upstream calls on the day
}

var _ Budget = (*Local)(nil)

// NewLocal returns a counter with the whole allowance of every account.
func NewLocal(now func() time.Time) *Local { return newShare(now, 1, 1) }

func newShare(now func() time.Time, share, liveShare int) *Local {
	return &Local{now: now, share: share, liveShare: liveShare, accounts: map[string]*ledger{}, properties: map[string]bucket{}}
}

// divide is the part of a limit that one of so many shares has: at least one, so that no replica turns everybody away.
func divide(limit, shares int) int {
	if limit == 0 {
		return 0
	}
	return max(1, limit/shares)
}

// Admit implements Budget.
func (l *Local) Admit(_ context.Context, accountID, keyID string, p Plan) (Usage, *Refusal) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	account := l.account(accountID, now)
	full, wait := account.buckets[keyID].take(now.UnixMicro(), 1, divide(p.RequestsPerMinutePerKey, l.share))
	var refusal *Refusal
	// The ceiling that lasts longest is named, so that nobody waits for one only to run into the next.
	switch {
	case account.inDay >= divide(p.RequestsPerDay, l.share):
		refusal = &Refusal{AccountDay, p.RequestsPerDay, untilNext(now, daySeconds)}
	case account.inHour >= divide(p.RequestsPerHour, l.share):
		refusal = &Refusal{AccountHour, p.RequestsPerHour, untilNext(now, hourSeconds)}
	case wait > 0:
		refusal = &Refusal{KeyMinute, p.RequestsPerMinutePerKey, wait}
	default:
		account.buckets[keyID] = full
		account.inHour++
		account.inDay++
		account.unsaved = true
	}
	return account.usage(now), refusal
}

// ChargeLive implements Budget.
func (l *Local) ChargeLive(_ context.Context, accountID, propertyID string, calls int, p Plan) *Refusal {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	account := l.account(accountID, now)
	full, wait := l.properties[propertyID].take(now.UnixMicro(), calls, divide(p.LiveCallsPerMinutePerProperty, l.liveShare))
	switch {
	case account.calls+calls > divide(p.SearchConsoleCallsPerDay, l.liveShare):
		return &Refusal{AccountCalls, p.SearchConsoleCallsPerDay, untilNext(now, daySeconds)}
	case wait > 0:
		return &Refusal{PropertyMinute, p.LiveCallsPerMinutePerProperty, wait}
	}
	l.properties[propertyID] = full
	account.calls += calls
	account.unsaved = true
	return nil
}

// account returns the ledger of an account, its windows moved on to now. The caller holds the lock.
func (l *Local) account(id string, now time.Time) *ledger {
	l.sweep(now)
	account := l.accounts[id]
	if account == nil {
		account = &ledger{buckets: map[string]bucket{}}
		l.accounts[id] = account
	}
	// A clock that is set back stays in the later window: going back would give the allowance of that window out again.
	if hour := hourOf(now); hour > account.hour {
		account.hour, account.inHour = hour, 0
	}
	if day := dayOf(now); day > account.day {
		account.day, account.inDay, account.calls = day, 0, 0
	}
	return account
}

// sweep throws away, once an hour, what no longer counts: buckets that are full, and accounts of days that are over.
func (l *Local) sweep(now time.Time) {
	if hourOf(now) <= l.swept {
		return
	}
	l.swept = hourOf(now)
	for id, b := range l.properties {
		if int64(b) <= now.UnixMicro() {
			delete(l.properties, id)
		}
	}
	for id, account := range l.accounts {
		if account.day < dayOf(now) && !account.unsaved {
			delete(l.accounts, id)
			continue
		}
		for key, b := range account.buckets {
			if int64(b) <= now.UnixMicro() {
				delete(account.buckets, key)
			}
		}
	}
}

// Usage implements Budget.
func (l *Local) Usage(_ context.Context, accountID string) Usage {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.account(accountID, now).usage(now)
}

// restore adds what was counted before.
func (l *Local) restore(counts []Count, unsaved bool) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range counts {
		account := l.account(c.AccountID, now)
		account.unsaved = account.unsaved || unsaved
		if window(c.Hour) == account.hour {
			account.inHour += c.InHour
		}
		if window(c.Day) == account.day {
			account.inDay += c.InDay
			account.calls += c.Calls
		}
	}
}

// unsaved returns the counts of the accounts that were charged since it was last called.
func (l *Local) unsaved() []Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	var counts []Count
	for id, account := range l.accounts {
		if account.unsaved {
			account.unsaved = false
			counts = append(counts, account.count(id))
		}
	}
	return counts
}

// take returns all counts and begins anew.
func (l *Local) take() []Count {
	l.mu.Lock()
	defer l.mu.Unlock()
	var counts []Count
	for id, account := range l.accounts {
		if account.unsaved {
			counts = append(counts, account.count(id))
		}
	}
	clear(l.accounts)
	clear(l.properties)
	return counts
}

func (a *ledger) usage(now time.Time) Usage {
	return Usage{RequestsThisHour: a.inHour, RequestsToday: a.inDay, CallsToday: a.calls, At: now}
}

func (a *ledger) count(id string) Count {
	return Count{AccountID: id, Hour: int64(a.hour), Day: int64(a.day), InHour: a.inHour, InDay: a.inDay, Calls: a.calls}
}
