package jobs

import (
	"context"

	"sara/archive"
	"sara/archive/sqlstore"
)

// RecordArchivedDays records in the store which days of a property are archived: listing properties shows them without reading
// the archive.
func RecordArchivedDays(ctx context.Context, store *sqlstore.Store, history *archive.History, property string) (sqlstore.ArchiveState, error) {
	inventory, err := history.Days(ctx, property)
	if err != nil {
		return sqlstore.ArchiveState{}, err
	}
	state, _, err := store.ArchiveState(ctx, property)
	if err != nil {
		return state, err
	}
	state.PropertyID = property
	state.First, state.Last = inventory.Bounds()
	return state, store.SaveArchiveState(ctx, state)
}
