package command

type archiveCommands struct {
	Export      archiveExport      `cmd:"" help:"Write the archived history of a property to a file or to standard output, or that of many into a folder." example:"sara archive export 'client1-*' --output client1"`
	Import      archiveImport      `cmd:"" help:"Import the history of a property from files: sara's own, those of Search Console's bulk export to BigQuery, or the daily totals of its Export button." example:"sara archive import shop history.csv"`
	BigQuerySQL archiveBigQuerySQL `cmd:"" name:"bigquery-sql" help:"Print a query for Search Console's bulk export in BigQuery; archive import reads its result." example:"sara archive bigquery-sql shop --dataset my-project.searchconsole"`
	Verify      archiveVerify      `cmd:"" help:"Check every object of the archive against its checksum, its list of archived days and the database." example:"sara archive verify"`
	Plan        archivePlan        `cmd:"" help:"Estimate the upstream calls, time and storage of an archive." example:"sara archive plan --properties 290 --history-months 36"`
	Sweep       archiveSweep       `cmd:"" help:"Delete the remaining archived history of removed properties." example:"sara archive sweep"`
}
