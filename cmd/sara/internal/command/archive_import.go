package command

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
	"sara/proxy/jobs/collector"
	"sara/translate"
)

type archiveImport struct {
	storeFlags
	settings.Archive
	Property string `arg:"" help:"Id, Search Console property, slug or domain."`
	settings.Plans
	console.Output
	Paths     []string `arg:"" name:"path" help:"Files, folders or patterns: files with the columns date,dimension,key,clicks,impressions,position, as export writes them; those of Search Console's bulk export to BigQuery; or the zip file or folder of its Export button, whose daily totals are imported."`
	Format    string   `enum:",csv,jsonl,parquet" default:"" placeholder:"FORMAT" help:"csv, jsonl or parquet, of files with the six columns; default: by the extension, or else the content."`
	Replace   bool     `help:"Replace days that are archived already; default: keep them. Each dimension of a day counts on its own."`
	ExportLog string   `placeholder:"PATH" help:"The table ExportLog of the bulk export: days that it lacks are left out, and its days without searches are known to have none."`
	Temp      string   `placeholder:"DIR" help:"Folder for temporary files of a bulk export; default: sara in the user's cache folder, such as ~/.cache/sara."`
}

// Help is the longer help of the command.
func (archiveImport) Help() string {
	return `The tables searchdata_site_impression and searchdata_url_impression of the bulk export are recognized by their columns, in Parquet, Avro, JSON lines or CSV with a header line, the last three also compressed with gzip, in any number of files and any order. Memory stays below 512 MiB whatever their size; sums go into temporary files, some 10 to 60 bytes for each row of the export, below --temp. They stay if the command is interrupted, and the same command continues. Name both tables in one command, because pages are imported only of days that have totals. The guide "Years from BigQuery" shows the export, and sara archive bigquery-sql a query that exports far less.

Search Console may still change the figures of the last seven days: the next collection reads those days again, whatever was imported.

A file that was cut is refused, but for a CSV file that ends within its last field, because many programs write no end of the last line. A note names such files.

The result counts a day once for each of its dimensions: total, query, page, country, device.`
}

// format returns the format of the flag, or else that of the extension of the only file.
func (c *archiveImport) format() (archive.Format, error) {
	if c.Format != "" {
		return archive.ParseFormat(c.Format)
	}
	return archive.ParseFormat(strings.ToLower(strings.TrimPrefix(filepath.Ext(c.Paths[0]), ".")))
}

// archiveImportRecord is the result of an import. A day counts once for each dimension.
type archiveImportRecord struct {
	ID            string  `json:"id"` // of the property
	RowsRead      int64   `json:"rows_read"`
	DaysArchived  int     `json:"days_archived"`
	DaysKept      int     `json:"days_kept"`      // archived before
	DaysDiffering int     `json:"days_differing"` // of those kept: the files have other clicks or impressions
	RowsCut       int     `json:"rows_cut"`       // beyond the limit of a day, or without clicks and impressions
	RowsSkipped   int64   `json:"rows_skipped"`   // of a bulk export: of other properties, search types or days
	FirstDay      *string `json:"first_day"`      // of the whole archive; null if it is empty
	LastDay       *string `json:"last_day"`
}

func (r archiveImportRecord) Columns() []console.Column {
	return []console.Column{{"ROWS READ", strconv.FormatInt(r.RowsRead, 10)}, {"DAYS ARCHIVED", strconv.Itoa(r.DaysArchived)},
		{"DAYS KEPT", strconv.Itoa(r.DaysKept)}, {"ROWS CUT", strconv.Itoa(r.RowsCut)}, {"FIRST DAY", console.Cell(r.FirstDay)},
		{"LAST DAY", console.Cell(r.LastDay)}, {"ID", r.ID}}
}

func (c *archiveImport) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		property, err := store.Property(ctx, c.Property)
		if err != nil {
			return err
		}
		history, err := backend.OpenArchive(c.Archive, con.Now)
		if err != nil {
			return err
		}
		calendar, err := translate.NewCalendar()
		if err != nil {
			return err
		}
		anchor := calendar.Anchor(con.Now())
		i := importing{c, con, store, history, property,
			archive.ImportOptions{Until: anchor, Provisional: collector.Provisional(anchor), Replace: c.Replace}}
		record, err := i.read(ctx)
		if err != nil {
			return err
		}
		state, err := i.recordState(ctx, record.DaysArchived)
		if err != nil {
			return err
		}
		if err := i.warnOfDeletion(ctx, state.First); err != nil {
			return err
		}
		record.ID, record.FirstDay, record.LastDay = property.ID, console.OptionalDate(state.First), console.OptionalDate(state.Last)
		return console.One(c.Output, con.Stdout, record)
	})
}

// An importing is an import under way.
type importing struct {
	*archiveImport
	con      *console.Console
	store    *sqlstore.Store
	history  *archive.History
	property sqlstore.Property
	options  archive.ImportOptions
}

// recordState records which days are archived now and, if the import has changed any, that it did.
func (i importing) recordState(ctx context.Context, changed int) (sqlstore.ArchiveState, error) {
	state, err := i.store.ArchiveState(ctx, i.property.ID)
	if err == nil {
		err = collector.Cover(ctx, i.history, &state)
	}
	switch {
	case err != nil:
		return state, err
	case changed == 0:
		return state, i.store.SaveArchiveState(ctx, state)
	}
	return state, i.store.RecordArchiveChange(ctx, state, "archive.import", map[string]any{"days_archived": changed, "replace": i.Replace})
}

// warnOfDeletion says which archived days the next collection deletes, because the plan does not keep them. A plan that keeps nothing
// deletes nothing, and nor does a property that is archived: neither is collected.
func (i importing) warnOfDeletion(ctx context.Context, first *translate.Date) error {
	workspace, err := i.store.Workspace(ctx, i.property.WorkspaceID)
	if err != nil {
		return err
	}
	account, err := i.store.Account(ctx, workspace.AccountID)
	if err != nil {
		return err
	}
	months := i.PlansFile.Table()[account.Plan].RetentionMonths
	if first == nil || i.property.Archived || months <= 0 {
		return nil
	}
	kept, err := firstKept(i.con, months)
	if err == nil && *first < kept {
		i.con.Note("the plan %s keeps %s of history: the next collection deletes the days before %s, "+
			"unless sara account plan changes it", account.Plan, english.Plural(months, "month", ""), kept)
	}
	return err
}

// read imports the files.
func (i importing) read(ctx context.Context) (none archiveImportRecord, err error) {
	var read func(context.Context) (archive.ImportResult, error)
	switch {
	case i.isSearchConsole():
		read = i.readSearchConsole
	case len(i.Paths) == 1 && i.Format != "":
		read = i.readFile
	default:
		files, err := i.sort()
		if err != nil {
			return none, err
		}
		if len(files.tables) > 0 {
			return i.readBulkExport(ctx, files.tables)
		}
		read = func(ctx context.Context) (archive.ImportResult, error) { return i.readRecords(ctx, files.records) }
	}
	if i.ExportLog != "" {
		return none, usage(errors.New("--export-log belongs to a bulk export, and these files are of another kind: leave it out"))
	}
	result, err := read(ctx)
	if err != nil {
		return none, err
	}
	return recordOfImport(i.con, result), nil
}

// recordOfImport returns the record of a result, and says which days differ.
func recordOfImport(con *console.Console, r archive.ImportResult) archiveImportRecord {
	reportDiffering(con, r.Differing)
	return archiveImportRecord{RowsRead: int64(r.Rows), DaysArchived: r.Days, DaysKept: r.Kept, DaysDiffering: len(r.Differing), RowsCut: r.DroppedRows}
}

// readRecords imports files with the six columns.
func (i importing) readRecords(ctx context.Context, files []string) (archive.ImportResult, error) {
	if _, err := i.format(); len(i.Paths) == 1 && err == nil && isFile(i.Paths[0]) {
		return i.readFile(ctx)
	}
	return i.history.Import(ctx, i.property.ID, archive.ReadShards(files), i.options)
}

// readFile imports the only file, which has the six columns.
func (i importing) readFile(ctx context.Context) (none archive.ImportResult, err error) {
	defer func() { err = i.locate(err) }()
	format, err := i.format()
	if err != nil {
		return none, err
	}
	info, err := os.Stat(i.Paths[0]) // to open a named pipe would wait for a program that writes to it
	if err != nil {
		return none, err
	}
	if !info.Mode().IsRegular() {
		return none, errors.New("it is not a regular file")
	}
	file, err := os.Open(i.Paths[0])
	if err != nil {
		return none, err
	}
	defer func() { _ = file.Close() }() // opened for reading only
	if i.Format == string(archive.CSV) {
		noteUnended(i.con, i.Paths[0]) // the name of the format is given, so the file was not looked at
	}
	return i.history.Import(ctx, i.property.ID, archive.ReadRecords(file, info.Size(), format), i.options)
}

// locate adds the only path to an error; nil stays nil.
func (c *archiveImport) locate(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", c.Paths[0], err)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// isSearchConsole reports whether the path is an export of Search Console's Export button: a zip file, or the folder that it unpacks to.
func (c *archiveImport) isSearchConsole() bool {
	if c.Format != "" || len(c.Paths) != 1 {
		return false
	}
	if strings.EqualFold(filepath.Ext(c.Paths[0]), ".zip") {
		return true
	}
	entries, err := os.ReadDir(c.Paths[0])
	return err == nil && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return archive.IsSearchConsoleFile(e.Name()) })
}

// readSearchConsole imports the daily totals, and says what cannot be imported.
func (i importing) readSearchConsole(ctx context.Context) (result archive.ImportResult, err error) {
	defer func() { err = i.locate(err) }()
	path := i.Paths[0]
	files := os.DirFS(path)
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		packed, err := zip.OpenReader(path)
		if err != nil {
			return result, err
		}
		defer func() { _ = packed.Close() }() // it was only read
		files = packed
	}
	found, err := archive.ReadSearchConsole(files, i.options.Until)
	if err != nil {
		return result, err
	}
	result, err = i.history.Import(ctx, i.property.ID, found.All(), i.options)
	for _, note := range found.Notes {
		i.con.Note("%s", note)
	}
	return result, err
}
