package policy

import (
	"context"
	"fmt"
	"time"
)

// A UsageStore keeps the counts of a MemoryBudget across restarts.
type UsageStore interface {
	// SaveUsage replaces the stored counts of the accounts in counts. It leaves out accounts that do not exist any more.
	SaveUsage(ctx context.Context, counts []UsageCount) error
	// Usage returns the stored counts of a UTC day, numbered since 1970.
	Usage(ctx context.Context, day int64) ([]UsageCount, error)
}

// saveTimeout bounds each save, including the last one at shutdown.
const saveTimeout = 5 * time.Second

// Load restores today's usage from the store.
func (b *MemoryBudget) Load(ctx context.Context, store UsageStore) error {
	counts, err := store.Usage(ctx, hourOf(b.now()).day())
	if err != nil {
		return fmt.Errorf("restore today's usage: %w", err)
	}
	for _, c := range counts {
		b.add(c)
		b.markStored(c)
	}
	return nil
}

// Persist saves what has changed (write-behind) on every tick, and a last time when ctx ends; then it returns. It reports each
// save, nil if all is saved; the next save includes what a failed one missed.
func (b *MemoryBudget) Persist(ctx context.Context, store UsageStore, tick <-chan time.Time, report func(error)) {
	for ended := false; !ended; {
		select {
		case <-tick:
		case <-ctx.Done():
			ended = true
		}
		report(b.save(ctx, store))
	}
}

func (b *MemoryBudget) save(ctx context.Context, store UsageStore) error {
	var counts []UsageCount
	for _, u := range b.unsynced() {
		counts = append(counts, u.used)
	}
	if len(counts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := store.SaveUsage(ctx, counts); err != nil {
		return fmt.Errorf("save the usage of %s: %w", counted(len(counts), "account"), err)
	}
	for _, c := range counts {
		b.markStored(c)
	}
	return nil
}
