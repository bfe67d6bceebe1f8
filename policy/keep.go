package policy

import (
	"context"
	"fmt"
	"time"
)

// A Ledger keeps the counts of a Local counter across restarts.
type Ledger interface {
	// SaveCounts replaces what is kept of the accounts in counts.
	SaveCounts(ctx context.Context, counts []Count) error
	// Counts returns what is kept of the day, in days since 1970.
	Counts(ctx context.Context, day int64) ([]Count, error)
}

// Load restores what the ledger has of today.
func (l *Local) Load(ctx context.Context, ledger Ledger) error {
	counts, err := ledger.Counts(ctx, int64(dayOf(l.now())))
	if err != nil {
		return fmt.Errorf("restore today's usage: %w", err)
	}
	l.restore(counts, false)
	return nil
}

// Keep saves to the ledger what was counted, whenever tick gives a tick and once more when ctx ends, and returns then. It
// reports saves that did not work; what they would have saved is saved with the account's next change.
func (l *Local) Keep(ctx context.Context, ledger Ledger, tick <-chan time.Time, report func(error)) {
	const saveTimeout = 5 * time.Second
	save := func() {
		counts := l.unsaved()
		if len(counts) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
		defer cancel()
		if err := ledger.SaveCounts(ctx, counts); err != nil {
			report(fmt.Errorf("save the usage of %d accounts: %w", len(counts), err))
		}
	}
	for {
		select {
		case <-tick:
			save()
		case <-ctx.Done():
			save()
			return
		}
	}
}
