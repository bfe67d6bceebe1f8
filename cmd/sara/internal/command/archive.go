package command

import (
	"context"
	"time"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/settings"
)

type archiveCommands struct {
	Export      archiveExport      `cmd:"" help:"Write the archived history of a property to a file or to standard output, or that of many into a folder." example:"sara archive export 'client1-*' --output client1"`
	Import      archiveImport      `cmd:"" help:"Import the history of a property from files: sara's own, those of Search Console's bulk export to BigQuery, or the daily totals of its Export button." example:"sara archive import shop history.csv"`
	BigQuerySQL archiveBigQuerySQL `cmd:"" name:"bigquery-sql" help:"Print a query for Search Console's bulk export in BigQuery; archive import reads its result." example:"sara archive bigquery-sql shop --dataset my-project.searchconsole"`
	Verify      archiveVerify      `cmd:"" help:"Check every object of the archive against its checksum, its list of archived days and the database." example:"sara archive verify"`
	Plan        archivePlan        `cmd:"" help:"Estimate the upstream calls, time and storage of an archive." example:"sara archive plan --properties 290 --history-months 36"`
	Sweep       archiveSweep       `cmd:"" help:"Delete the remaining archived history of removed properties." example:"sara archive sweep"`
}

// archiveFlags are the flags of commands on the archive of one property.
type archiveFlags struct {
	storeFlags
	settings.Archive
	Property string `arg:"" help:"Id, Search Console property, slug or domain."`
}

// use runs do with the property, the archive and the database.
func (f archiveFlags) use(ctx context.Context, now func() time.Time,
	do func(*sqlstore.Store, *archive.History, sqlstore.Property) error) error {
	return f.storeFlags.use(ctx, func(store *sqlstore.Store) error {
		property, err := store.Property(ctx, f.Property)
		if err != nil {
			return err
		}
		history, err := backend.OpenArchive(f.Archive, now)
		if err != nil {
			return err
		}
		return do(store, history, property)
	})
}
