package policy

import (
	"context"
	"fmt"
	"time"
)

// A Ledger keeps the counts of a Local counter across restarts.
type UsageStore interface {
	// SaveUsage replaces what is kept of the accounts in counts.
	SaveUsage(ctx context.Context, counts []UsageCount) error
	// Counts returns what is kept of the day, in days since 1970.
	Usage(ctx context.Context, day int64) ([]UsageCount, error)
}

// saveTimeout bounds one save, the last one when the process ends included.
const saveTimeout = 5 * time.Second

// Load restores what the ledger has of today.
func (l *MemoryBudget) Load(ctx context.Context, ledger UsageStore) error {
	counts, err := ledger.Usage(ctx, hourOf(l.now()).day())
	if err != nil {
		return fmt.Errorf("restore today's usage: %w", err)
	}
	for _, c := range counts {
		l.add(c)
		l.keep(c)
	}
	return nil
}

// Keep saves to the ledger what was counted, whenever tick gives a tick and once more when ctx ends, and returns then. It
// reports saves that did not work; what they would have saved is saved with the next one.
func (l *MemoryBudget) Persist(ctx context.Context, ledger UsageStore, tick <-chan time.Time, report func(error)) {
	for ended := false; !ended; {
		select {
		case <-tick:
		case <-ctx.Done():
			ended = true
		}
		if err := l.save(ctx, ledger); err != nil {
			report(err)
		}
	}
}

func (l *MemoryBudget) save(ctx context.Context, ledger UsageStore) error {
	var counts []UsageCount
	for _, c := range l.changes() {
		counts = append(counts, c.used)
	}
	if len(counts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := ledger.SaveUsage(ctx, counts); err != nil {
		return fmt.Errorf("save the usage of %d accounts: %w", len(counts), err)
	}
	for _, c := range counts {
		l.keep(c)
	}
	return nil
}
