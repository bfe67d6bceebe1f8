package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/jobs"
	"sara/cmd/sara/internal/settings"
	"sara/translate"
)

type archiveCommands struct {
	Export archiveExport `cmd:"" help:"Write the archived history of a property to a file or to standard output, or that of many into a folder." example:"sara archive export 'client1-*' --output client1"`
	Import archiveImport `cmd:"" help:"Import the history of a property from a file, or the daily totals of an export of Search Console." example:"sara archive import shop history.csv"`
	Verify archiveVerify `cmd:"" help:"Check every object of the archive against its checksum, its ledger and the database." example:"sara archive verify"`
	Plan   archivePlan   `cmd:"" help:"Estimate the upstream calls, time and storage of an archive." example:"sara archive plan --properties 290 --history-months 36"`
	Sweep  archiveSweep  `cmd:"" help:"Delete the remaining archived history of removed properties." example:"sara archive sweep"`
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

type archiveImport struct {
	archiveFlags
	console.Output
	File    string `arg:"" help:"File with the columns date,dimension,key,clicks,impressions,position, as export writes them; or the zip file or folder of Search Console's own export, whose daily totals are imported."`
	Format  string `enum:",csv,jsonl,parquet" default:"" placeholder:"FORMAT" help:"csv, jsonl or parquet; default: by the extension of FILE."`
	Replace bool   `help:"Replace days that are archived already; default: keep them. Each dimension of a day counts on its own."`
}

// Validate implements kong's check of a command line.
func (c *archiveImport) Validate() error {
	if c.isSearchConsole() {
		return nil
	}
	if _, err := c.format(); err != nil && c.File != "" { // kong reports a missing FILE
		return fmt.Errorf("%w: name it with --format", err)
	}
	return nil
}

// format returns the format of the flag, or else that of the file's extension.
func (c *archiveImport) format() (archive.Format, error) {
	if c.Format != "" {
		return archive.ParseFormat(c.Format)
	}
	return archive.ParseFormat(strings.ToLower(strings.TrimPrefix(filepath.Ext(c.File), ".")))
}

// archiveImportRecord is the result of an import. A day counts once for each dimension.
type archiveImportRecord struct {
	ID           string  `json:"id"` // of the property
	RowsRead     int     `json:"rows_read"`
	DaysArchived int     `json:"days_archived"`
	DaysKept     int     `json:"days_kept"` // archived before
	RowsCut      int     `json:"rows_cut"`  // beyond the limit of a day, or without clicks and impressions
	FirstDay     *string `json:"first_day"` // of the whole archive; null if it is empty
	LastDay      *string `json:"last_day"`
}

func (archiveImportRecord) Header() []string {
	return []string{"ROWS READ", "DAYS ARCHIVED", "DAYS KEPT", "ROWS CUT", "FIRST DAY", "LAST DAY", "ID"}
}

func (r archiveImportRecord) Cells() []string {
	return []string{strconv.Itoa(r.RowsRead), strconv.Itoa(r.DaysArchived), strconv.Itoa(r.DaysKept), strconv.Itoa(r.RowsCut),
		console.Cell(r.FirstDay), console.Cell(r.LastDay), r.ID}
}

func (c *archiveImport) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con.Now, func(store *sqlstore.Store, history *archive.History, property sqlstore.Property) error {
		result, err := c.read(ctx, con, history, property.ID)
		if err != nil {
			return fmt.Errorf("%s: %w", c.File, err)
		}
		state, err := jobs.RecordArchivedDays(ctx, store, history, property.ID)
		if err != nil {
			return err
		}
		return console.One(c.Output, con.Stdout, archiveImportRecord{
			ID: property.ID, RowsRead: result.Rows, DaysArchived: result.Days, DaysKept: result.Kept, RowsCut: result.DroppedRows,
			FirstDay: console.OptionalDate(state.First), LastDay: console.OptionalDate(state.Last),
		})
	})
}

// read imports the file.
func (c *archiveImport) read(ctx context.Context, con *console.Console, history *archive.History, property string) (archive.ImportResult, error) {
	var none archive.ImportResult
	calendar, err := translate.NewCalendar()
	if err != nil {
		return none, err
	}
	options := archive.ImportOptions{Until: calendar.Anchor(con.Now()), Replace: c.Replace}
	if c.isSearchConsole() {
		return c.readSearchConsole(ctx, con, history, property, options)
	}
	format, err := c.format()
	if err != nil {
		return none, err
	}
	file, err := os.Open(c.File)
	if err != nil {
		return none, err
	}
	defer func() { _ = file.Close() }() // opened for reading only
	info, err := file.Stat()
	if err != nil {
		return none, err
	}
	if !info.Mode().IsRegular() {
		return none, errors.New("it is not a regular file")
	}
	return history.Import(ctx, property, archive.ReadRecords(file, info.Size(), format), options)
}

// isSearchConsole reports whether the file is an export of Search Console: a zip file, or the folder that it unpacks to.
func (c *archiveImport) isSearchConsole() bool {
	if c.Format != "" {
		return false
	}
	info, err := os.Stat(c.File)
	return strings.EqualFold(filepath.Ext(c.File), ".zip") || err == nil && info.IsDir()
}

// readSearchConsole imports the daily totals, and says what cannot be imported.
func (c *archiveImport) readSearchConsole(ctx context.Context, con *console.Console, history *archive.History, property string, options archive.ImportOptions) (
	result archive.ImportResult, err error) {
	files := os.DirFS(c.File)
	if info, err := os.Stat(c.File); err != nil || !info.IsDir() {
		packed, err := zip.OpenReader(c.File)
		if err != nil {
			return result, err
		}
		defer func() { _ = packed.Close() }() // it was only read
		files = packed
	}
	found, err := archive.ReadSearchConsole(files, options.Until)
	if err != nil {
		return result, err
	}
	result, err = history.Import(ctx, property, found.All(), options)
	for _, note := range found.Notes {
		_, _ = fmt.Fprintf(con.Stderr, "sara: %s\n", note)
	}
	return result, err
}
