package policy

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"
)

// A ReplicaUsage is what one replica has admitted of an account while it could not count in Redis. All counts are of the same
// hour and day.
type ReplicaUsage struct {
	Replica                      string
	Used                         UsageCount // by the replica, also through Redis
	Local                        UsageCount // the part of Used that Redis does not have
	Leased                       UsageCount // the part of the requests of Local that Redis had leased: it counts a lease that lapses as used
	Seen                         UsageCount // by all replicas, when this one last saw Redis
	PerHour, PerDay, CallsPerDay int        // the limits, negative for none
}

// A ReplicaStore keeps what replicas have admitted without Redis, so that a restart does not grant their shares once more.
type ReplicaStore interface {
	// SaveReplicaUsage replaces the stored usage of these replicas and accounts. It returns the part of usage that replaced nothing.
	SaveReplicaUsage(ctx context.Context, usage []ReplicaUsage) (added []ReplicaUsage, err error)
	// ReplicaUsage returns stored usage of a UTC day, numbered since 1970, in the order of replicas and accounts: of one replica, or of all
	// if it is empty; at most limit rows, of those after a replica and account, which are both empty for the first rows.
	ReplicaUsage(ctx context.Context, replica string, day int64, after ReplicaAccount, limit int) ([]ReplicaUsage, error)
	// DeleteReplicaUsage deletes usage that has not changed since it was read, and all usage of days before a day.
	DeleteReplicaUsage(ctx context.Context, usage []ReplicaUsage, before int64) error
}

// A ReplicaAccount identifies a ReplicaUsage.
type ReplicaAccount struct{ Replica, AccountID string }

func (u *ReplicaUsage) of() ReplicaAccount { return ReplicaAccount{u.Replica, u.Used.AccountID} }

// shares keeps in a ReplicaStore what this replica has admitted without Redis, and brings to Redis what others have.
type shares struct {
	store   ReplicaStore // nil: none
	log     *slog.Logger
	saved   map[string]ReplicaUsage // by account: of this replica, as stored, unless another replica has brought it to Redis
	pending bool                    // the store may have usage that Redis lacks
	adopted ReplicaAccount          // up to which adopt has brought usage to Redis; zero: it starts with the first
	failing bool                    // the store; logged once

	// What this replica has brought to Redis and the store may still have. Others have seen it there: if Redis loses it, they restore it.
	brought map[ReplicaAccount]UsageCount
}

const (
	storeTimeout = 2 * time.Second // bounds one access to the store
	lastTimeout  = 5 * time.Second // after which a replica that starts or ends begins no other access
	storeBatch   = 500             // rows that one access saves or deletes, and accounts that are saved in one tick
	readBatch    = 10 * storeBatch // rows that one access reads, if nothing is done with them
)

// report logs that the store has begun to fail, once.
func (s *shares) report(err error) {
	if err != nil && !s.failing {
		s.log.Warn("budgets: what is admitted without Redis cannot be stored; a restart would grant it again", slog.Any("error", err))
	}
	s.failing = err != nil
}

// save stores what this replica has counted today and has changed since the last time, of no more than most accounts.
func (b *RedisBudget) save(ctx context.Context, most int) {
	if b.shares.store == nil {
		return
	}
	if brought := b.storeInBatches(ctx, b.unsaved(most)); brought {
		b.storeInBatches(ctx, b.unsaved(most))
	}
}

// saveLast saves what has changed, and then once more what others have brought to Redis since it was saved: Redis may have lost it, and only
// this replica knows.
func (b *RedisBudget) saveLast() {
	ctx, cancel := context.WithTimeout(context.Background(), lastTimeout)
	defer cancel()
	b.save(ctx, math.MaxInt)
	b.noticeBrought(ctx)
	b.save(ctx, math.MaxInt)
}

// storeInBatches stores usage of this replica until the store fails or ctx ends. It reports whether others had brought to Redis what was
// stored before: then this is no longer local, and has to be stored once more.
func (b *RedisBudget) storeInBatches(ctx context.Context, usage []ReplicaUsage) (brought bool) {
	for batch := range slices.Chunk(usage, storeBatch) {
		if ctx.Err() != nil {
			break
		}
		brought = b.store(ctx, batch) || brought
		if b.shares.failing {
			break
		}
	}
	return brought
}

// unsaved returns what is not stored: first what Redis lacks, then the rest, which Redis may have lost when it comes back.
func (b *RedisBudget) unsaved(most int) []ReplicaUsage {
	s := b.shares
	var first, rest []ReplicaUsage
	for _, e := range b.fallback.ledger() {
		id := e.used.AccountID
		u := e.stored(b.replica)
		if saved := s.saved[id]; saved.Used == u.Used && saved.Local == u.Local || u.Used.InDay == 0 && u.Used.charged() == 0 {
			continue
		}
		u.Seen = u.Seen.minus(e.loaded)
		if e.isSynced() {
			rest = append(rest, u)
		} else {
			first = append(first, u)
		}
	}
	usage := slices.Concat(first, rest)
	return usage[:min(len(usage), most)]
}

// store is one access of storeInBatches.
func (b *RedisBudget) store(ctx context.Context, usage []ReplicaUsage) (brought bool) {
	s := b.shares
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	added, err := s.store.SaveReplicaUsage(ctx, usage)
	s.report(err)
	if err != nil {
		return false
	}
	s.pending = true
	for _, u := range added {
		if before, ok := s.saved[u.Used.AccountID]; ok {
			b.fallback.brought(before.Used)
			brought = true
		}
	}
	for _, u := range usage {
		s.saved[u.Used.AccountID] = u
	}
	return brought
}

// stored returns the entry as a ReplicaStore keeps it.
func (e *ledgerEntry) stored(replica string) ReplicaUsage {
	seen := e.seen
	seen.advanceTo(hour(e.used.Hour))
	return ReplicaUsage{Replica: replica, Used: e.used, Local: e.used.minus(e.synced), Leased: e.leased, Seen: seen,
		PerHour: e.limits.RequestsPerHour, PerDay: e.limits.RequestsPerDay, CallsPerDay: e.limits.SearchConsoleCallsPerDay}
}

// entry returns stored usage as an entry for Redis.
func (u *ReplicaUsage) entry() ledgerEntry {
	synced := u.Used.minus(u.Local)
	return ledgerEntry{replica: u.Replica,
		counts: counts{used: u.Used, synced: synced, seen: u.Seen, leased: u.Leased, beyond: UsageCount{AccountID: u.Used.AccountID}},
		limits: Plan{RequestsPerHour: u.PerHour, RequestsPerDay: u.PerDay, SearchConsoleCallsPerDay: u.CallsPerDay}}
}

// Load reads what replicas have admitted today without Redis, so that this one knows about it while Redis is still away. An error
// means that it does not know.
func (b *RedisBudget) Load(ctx context.Context) error {
	if b.shares.store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lastTimeout)
	defer cancel()
	seen, local := map[string]UsageCount{}, map[string]UsageCount{}
	for usage, err := range b.stored(ctx, "", hourOf(b.clock.time()).day(), ReplicaAccount{}, readBatch) {
		if err != nil {
			return fmt.Errorf("load the shares that replicas have used: %w", err)
		}
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
	}
	for id, known := range seen {
		known.add(local[id])
		b.fallback.know(known)
		b.fallback.load(local[id])
	}
	return nil
}

// know records what all replicas are known to have used.
func (b *MemoryBudget) know(total UsageCount) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account(total.AccountID, now).seen.raise(total)
}

// load records which part of what is known is in the store, and was not in Redis: Redis is not expected to have it.
func (b *MemoryBudget) load(local UsageCount) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.account(local.AccountID, now).loaded.raise(local)
}

// loadedIsBrought records that Redis has what was loaded.
func (b *MemoryBudget) loadedIsBrought() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, a := range b.accounts {
		a.loaded = UsageCount{AccountID: id, Hour: a.loaded.Hour, Day: a.loaded.Day}
	}
}
