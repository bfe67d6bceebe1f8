package policy

import (
	"context"
	"iter"
)

// stored yields what a replica, or all if it is empty, has stored on a day, after some, limit rows at a time; or an error, and then nothing more.
func (b *RedisBudget) stored(ctx context.Context, replica string, day int64, after ReplicaAccount, limit int) iter.Seq2[[]ReplicaUsage, error] {
	read := func() ([]ReplicaUsage, error) {
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		return b.shares.store.ReplicaUsage(ctx, replica, day, after, limit)
	}
	return func(yield func([]ReplicaUsage, error) bool) {
		for {
			usage, err := read()
			if err == nil && len(usage) == 0 || !yield(usage, err) || len(usage) < limit {
				return
			}
			after = usage[len(usage)-1].of()
		}
	}
}

// reportUnlessEnded reports an error, unless ctx has ended, which shows nothing about the store.
func (s *shares) reportUnlessEnded(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.report(err)
	}
}

// noticeBrought notices what others have brought to Redis of what this replica has stored: the store does not have it any more, and gets it
// from the next save. A store that fails is not asked: sync must not wait for it.
func (b *RedisBudget) noticeBrought(ctx context.Context) {
	s := b.shares
	if len(s.saved) == 0 || s.failing {
		return
	}
	day, remaining := hourOf(b.clock.time()).day(), map[string]bool{}
	for usage, err := range b.stored(ctx, b.replica, day, ReplicaAccount{}, readBatch) { // not those of all replicas: sync waits for it
		if err != nil {
			s.reportUnlessEnded(ctx, err)
			return
		}
		for _, u := range usage {
			remaining[u.Used.AccountID] = true
		}
	}
	for id, saved := range s.saved {
		if saved.Used.Day == day && !remaining[id] {
			b.fallback.brought(saved.Used)
			delete(s.saved, id)
		}
	}
}

// adopt brings to Redis what replicas have stored while it was away, those that have ended included, and deletes it. A replica that is
// still cut off finds that out from the store, see noticeBrought. What such a replica has saved again meanwhile is not deleted, so adopt is
// repeated with each tick until the store has nothing. If there is much, it takes several ticks, since heartbeats must not wait for it; done
// reports whether it has got to the end, or the store is away: then nothing is lost if it comes back today. An error means that Redis is away.
func (b *RedisBudget) adopt(ctx context.Context) (done bool, err error) {
	s := b.shares
	if s.store == nil || !s.pending {
		return true, nil
	}
	begun, day := b.config.Now(), hourOf(b.clock.time()).day()
	found := s.adopted != ReplicaAccount{}
	for usage, err := range b.stored(ctx, "", day, s.adopted, storeBatch) {
		if err == nil {
			if err := b.restoreInBatches(ctx, s.entries(usage)); err != nil {
				return false, err
			}
			err = b.deleteBrought(ctx, usage, day)
		}
		if err != nil {
			s.reportUnlessEnded(ctx, err)
			return true, nil
		}
		found, s.adopted = true, usage[len(usage)-1].of()
		if b.config.Now().Sub(begun) >= probeInterval {
			return false, nil
		}
	}
	s.report(nil)
	s.adopted = ReplicaAccount{}
	if s.pending = found; !found {
		clear(s.saved)
		clear(s.brought)
	}
	b.fallback.loadedIsBrought()
	return true, nil
}

// entries returns stored usage as entries for Redis. What this replica has brought there before is nothing that no server has ever had.
func (s *shares) entries(usage []ReplicaUsage) []ledgerEntry {
	entries := make([]ledgerEntry, len(usage))
	for i, u := range usage {
		e := u.entry()
		e.synced.raise(s.brought[u.of()])
		e.leased.lower(e.used.minus(e.synced))
		entries[i] = e
	}
	return entries
}

// deleteBrought deletes from the store what has been brought to Redis.
func (b *RedisBudget) deleteBrought(ctx context.Context, usage []ReplicaUsage, day int64) error {
	for _, u := range usage {
		b.shares.brought[u.of()] = u.Used
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return b.shares.store.DeleteReplicaUsage(ctx, usage, day)
}
