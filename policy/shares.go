package policy

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// A ReplicaUsage is what one replica has admitted of an account while it could not count in Redis. All counts are of the same
// hour and day.
type ReplicaUsage struct {
	Replica                      string
	Used                         UsageCount // by the replica, also through Redis
	Local                        UsageCount // the part of Used that Redis does not have
	Seen                         UsageCount // by all replicas, when this one last saw Redis
	PerHour, PerDay, CallsPerDay int        // the limits, negative for none
}

// A ReplicaStore keeps what replicas have admitted without Redis, so that a restart does not grant their shares once more.
type ReplicaStore interface {
	// SaveReplicaUsage replaces the stored usage of these replicas and accounts.
	SaveReplicaUsage(ctx context.Context, usage []ReplicaUsage) error
	// ReplicaUsage returns the stored usage of all replicas on a UTC day, numbered since 1970.
	ReplicaUsage(ctx context.Context, day int64) ([]ReplicaUsage, error)
	// DeleteReplicaUsage deletes usage that has not changed since it was read, and all usage of days before a day.
	DeleteReplicaUsage(ctx context.Context, usage []ReplicaUsage, before int64) error
}

// shares keeps in a ReplicaStore what this replica has admitted without Redis, and brings to Redis what others have.
type shares struct {
	store   ReplicaStore // nil: none
	log     *slog.Logger
	saved   map[string]UsageCount // by account: used, as stored
	pending bool                  // the store may have usage that Redis lacks
	failing bool                  // the store; logged once

	mu     sync.Mutex            // guards loaded, which Load sets
	loaded map[string]UsageCount // by account: what others had admitted without Redis, which seen includes until Redis is back
}

const (
	storeTimeout = 2 * time.Second // bounds one access to the store
	saveBatch    = 500             // accounts, in one tick
)

// loadedOf returns what others had admitted of an account without Redis, and have not brought to it.
func (s *shares) loadedOf(accountID string) UsageCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded[accountID]
}

// report logs that the store has begun to fail, once.
func (s *shares) report(err error) {
	if err != nil && !s.failing {
		s.log.Warn("budgets: what is admitted without Redis cannot be stored; a restart would grant it again", slog.Any("error", err))
	}
	s.failing = err != nil
}

// save stores what this replica has counted today and has changed since the last time: first what Redis lacks, then the rest,
// which Redis may have lost when it comes back; no more than most accounts.
func (b *RedisBudget) save(ctx context.Context, most int) {
	s := b.shares
	if s.store == nil {
		return
	}
	var first, rest []ReplicaUsage
	for _, e := range b.fallback.ledger() {
		id := e.used.AccountID
		if s.saved[id] == e.used || e.used.InDay == 0 && e.used.charged() == 0 {
			continue
		}
		u := e.stored(b.replica)
		u.Seen = u.Seen.minus(s.loadedOf(id))
		if e.isSynced() {
			rest = append(rest, u)
		} else {
			first = append(first, u)
		}
	}
	usage := slices.Concat(first, rest)
	usage = usage[:min(len(usage), most)]
	if len(usage) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	err := s.store.SaveReplicaUsage(ctx, usage)
	s.report(err)
	if err != nil {
		return
	}
	s.pending = true
	for _, u := range usage {
		s.saved[u.Used.AccountID] = u.Used
	}
}

// stored returns the entry as a ReplicaStore keeps it.
func (e *ledgerEntry) stored(replica string) ReplicaUsage {
	seen := e.seen
	seen.advanceTo(hour(e.used.Hour))
	return ReplicaUsage{Replica: replica, Used: e.used, Local: e.used.minus(e.synced), Seen: seen,
		PerHour: e.limits.RequestsPerHour, PerDay: e.limits.RequestsPerDay, CallsPerDay: e.limits.SearchConsoleCallsPerDay}
}

// entry returns stored usage as an entry for Redis.
func (u *ReplicaUsage) entry() ledgerEntry {
	synced := u.Used.minus(u.Local)
	return ledgerEntry{counts: counts{used: u.Used, synced: synced, seen: u.Seen, beyond: UsageCount{AccountID: u.Used.AccountID}},
		limits: Plan{RequestsPerHour: u.PerHour, RequestsPerDay: u.PerDay, SearchConsoleCallsPerDay: u.CallsPerDay}}
}

// Load reads what replicas have admitted today without Redis, so that this one knows about it while Redis is still away. An error
// means that it does not know.
func (b *RedisBudget) Load(ctx context.Context) error {
	if b.config.Store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	usage, err := b.config.Store.ReplicaUsage(ctx, hourOf(b.clock.time()).day())
	if err != nil {
		return fmt.Errorf("load the shares that replicas have used: %w", err)
	}
	seen, local := map[string]UsageCount{}, map[string]UsageCount{}
	for _, u := range usage {
		id := u.Used.AccountID
		known, of := seen[id], local[id]
		known.AccountID, of.AccountID = id, id
		known.advanceTo(hour(u.Seen.Hour))
		known.raise(u.Seen)
		of.advanceTo(hour(u.Local.Hour))
		of.add(u.Local)
		seen[id], local[id] = known, of
	}
	for id, known := range seen {
		known.add(local[id])
		b.fallback.know(known)
	}
	b.shares.mu.Lock()
	b.shares.loaded = local
	b.shares.mu.Unlock()
	return nil
}

// know records what all replicas are known to have used.
func (b *MemoryBudget) know(total UsageCount) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account(total.AccountID, now).seen.raise(total)
}

// adopt brings to Redis what replicas have stored while it was away, those that have ended included, and deletes it.
func (b *RedisBudget) adopt(ctx context.Context) error {
	s := b.shares
	if s.store == nil || !s.pending {
		return nil
	}
	day := hourOf(b.clock.time()).day()
	reading, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	usage, err := s.store.ReplicaUsage(reading, day)
	if err != nil {
		s.report(err)
		return nil // the store is away: nothing is lost if it comes back today
	}
	for _, u := range usage {
		restoring, cancel := context.WithTimeout(ctx, b.timeout)
		err := b.restoreAs(restoring, u.Replica, []ledgerEntry{u.entry()})
		cancel()
		if err != nil {
			return err
		}
	}
	if len(usage) > 0 {
		deleting, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		err = s.store.DeleteReplicaUsage(deleting, usage, day)
	}
	s.report(err)
	s.pending = err != nil
	clear(s.saved)
	s.mu.Lock()
	clear(s.loaded)
	s.mu.Unlock()
	return nil
}
