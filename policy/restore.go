package policy

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

// How many accounts one pipeline restores, and how many keys of them: few enough for Redis to answer within a round trip. An account takes
// it some 80 µs, and each key 5 µs.
const (
	restoreAccounts = 200
	restoreKeys     = 5000
)

// restoreBatches yields the entries in parts that one pipeline restores. An account with more keys than that is a part of its own.
func restoreBatches(entries []ledgerEntry) iter.Seq[[]ledgerEntry] {
	return func(yield func([]ledgerEntry) bool) {
		for len(entries) > 0 {
			n, keys := 1, len(entries[0].keys)
			for n < min(len(entries), restoreAccounts) && keys+len(entries[n].keys) <= restoreKeys {
				keys += len(entries[n].keys)
				n++
			}
			if !yield(entries[:n]) {
				return
			}
			entries = entries[n:]
		}
	}
}

// restore adds to Redis what it does not have of the entries, of this replica or, if they name another one, of that. It does nothing twice.
// ctx has a deadline.
func (b *RedisBudget) restore(ctx context.Context, entries []ledgerEntry) error {
	for i := range entries {
		if e := &entries[i]; e.replica == "" {
			e.replica = b.replica
		}
	}
	for batch := range restoreBatches(entries) {
		pending, err := batch, error(nil)
		script := []any{"evalsha", b.restoreScript.Hash()}
		for attempt := 0; len(pending) > 0; attempt++ {
			if attempt == maxAttempts {
				return fmt.Errorf("restore counts in Redis: %w", err)
			}
			pending, err = b.sendRestores(ctx, script, pending)
			switch {
			case redis.HasErrorPrefix(err, "NOSCRIPT"):
				script = []any{"eval", restoreLua}
			case redisconn.IsFull(err):
				b.config.Relieve(ctx)
			case err != nil && !errors.Is(err, errExpired):
				return fmt.Errorf("restore counts in Redis: %w", err)
			}
		}
	}
	return nil
}

// sendRestores restores entries in one pipeline, and returns those that were not restored, with the first error.
func (b *RedisBudget) sendRestores(ctx context.Context, script []any, entries []ledgerEntry) (failed []ledgerEntry, err error) {
	sent, deadline := b.clock.now(), b.clock.deadline(ctx)
	pipe := b.config.Client.Pipeline()
	replies := make([]*redis.IntSliceCmd, len(entries))
	for i, e := range entries {
		words := append(slices.Clone(script), 1, accountKey(e.used.AccountID), deadline, e.replica)
		replies[i] = redis.NewIntSliceCmd(ctx, append(words, e.args()...)...)
		_ = pipe.Process(ctx, redisconn.Once(replies[i])) // queues the command; it cannot fail
	}
	redisconn.Exec(ctx, pipe)
	for i, reply := range replies {
		numbers, replyErr := reply.Result()
		var now time.Time
		if replyErr == nil {
			now, numbers, replyErr = b.clock.read(numbers, sent)
		}
		if replyErr == nil {
			replyErr = b.restored(entries[i], now, numbers)
		}
		if replyErr != nil {
			failed = append(failed, entries[i])
			if err == nil {
				err = replyErr
			}
		}
	}
	return failed, err
}

// args returns the entry as arguments of restore.lua.
func (e *ledgerEntry) args() []any {
	u, o := &e.used, e.beyond
	o.advanceTo(hour(u.Hour))
	total, fresh := e.total(), u.minus(e.synced).minus(e.leased) // Redis counts leases as used
	total = total.minus(e.loaded)                                // adopt brings it
	words := []any{e.limits.RequestsPerMinutePerKey, e.limits.RequestsPerHour, e.limits.RequestsPerDay, e.limits.SearchConsoleCallsPerDay,
		u.Hour, u.Day, u.InHour, u.InDay, u.charged(), u.Returned, o.InHour, o.InDay, o.Calls, total.InHour, total.InDay,
		max(0, fresh.InHour), max(0, fresh.InDay), e.leased.InDay}
	for _, key := range e.keys {
		words = append(words, key.id, int64(key.shared), key.drained)
	}
	return words
}

// restored records the reply of restore.lua.
func (b *RedisBudget) restored(e ledgerEntry, now time.Time, numbers []int64) error {
	const replyLength = 12
	if len(numbers) != replyLength {
		return fmt.Errorf("reply of Redis has %d numbers, not %d", len(numbers), replyLength)
	}
	var n [replyLength]int
	for i, number := range numbers {
		n[i] = int(number)
	}
	total := Usage{RequestsThisHour: n[0], RequestsToday: n[1], CallsToday: n[2], At: now}
	beyond := UsageCount{InHour: n[9], InDay: n[10], Calls: n[11]}
	over := [4]int{n[5], n[6], n[7], n[8]}
	if e.replica == b.replica {
		b.fallback.restored(e, now, total, beyond)
	} else { // so that Redis can lose it again
		h := hourOf(now)
		b.fallback.know(UsageCount{AccountID: e.used.AccountID, Hour: int64(h), Day: h.day(), InHour: n[0], InDay: n[1], Calls: n[2]})
	}
	// What Redis has never had is not lost.
	local := e.used.minus(e.synced)
	lost := max(0, n[3]-max(0, local.InDay)) + max(0, n[4]-max(0, local.charged()))
	b.metrics.restored.Add(float64(lost))
	for i, limit := range overLimits {
		b.metrics.over.WithLabelValues(limit).Add(float64(over[i]))
	}
	b.losses.add(lost, over)
	return nil
}

// sync adds to Redis what was admitted while it was away, and after a loss everything that this replica has admitted in the
// windows of now.
func (b *RedisBudget) sync(ctx context.Context, afterLoss bool) error {
	entries := b.fallback.unsynced()
	if afterLoss {
		entries = b.fallback.ledger()
	}
	return b.restoreInBatches(ctx, entries)
}

// restoreInBatches is restore of any number of entries, which takes several round trips.
func (b *RedisBudget) restoreInBatches(ctx context.Context, entries []ledgerEntry) error {
	for batch := range restoreBatches(entries) {
		ctx, cancel := context.WithTimeout(ctx, b.timeout)
		err := b.restore(ctx, batch)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
