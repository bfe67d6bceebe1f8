package jobs

import (
	"context"
	"errors"

	"sara/archive"
	"sara/archive/sqlstore"
)

// CoverArchivedDays sets which days of a property are archived in the state of its archive: listing properties shows them without reading
// the archive. Damaged months do not count.
func CoverArchivedDays(ctx context.Context, history *archive.History, state *sqlstore.ArchiveState) error {
	inventory, err := history.Days(ctx, state.PropertyID)
	if err != nil && !errors.As(err, new(*archive.DamageError)) {
		return err
	}
	first, last := inventory.Bounds()
	state.Cover(first, last, inventory.EmptyMonths())
	return nil
}
