package jobs

import (
	"context"
	"errors"

	"sara/archive"
	"sara/archive/sqlstore"
)

// RecordArchivedDays records in the store which days of a property are archived: listing properties shows them without reading
// the archive. Damaged months do not count.
func RecordArchivedDays(ctx context.Context, store *sqlstore.Store, history *archive.History, property string) (sqlstore.ArchiveState, error) {
	inventory, err := history.Days(ctx, property)
	if err != nil && !errors.As(err, new(*archive.DamageError)) {
		return sqlstore.ArchiveState{}, err
	}
	state, err := store.ArchiveState(ctx, property)
	if err != nil {
		return state, err
	}
	first, last := inventory.Bounds()
	state.Cover(first, last, inventory.EmptyMonths())
	return state, store.SaveArchiveState(ctx, state)
}
