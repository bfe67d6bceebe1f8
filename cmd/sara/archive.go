package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
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
	Export archiveExport `cmd:"" help:"Write the archived history of a property to a file or to standard output." example:"sara archive export shop --from 2026-01-01 --to 2026-01-31 --format csv --output shop.csv"`
	Import archiveImport `cmd:"" help:"Import the history of a property from a file." example:"sara archive import shop history.csv"`
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

type archiveExport struct {
	archiveFlags
	From   date   `required:"" placeholder:"DATE" help:"First day, YYYY-MM-DD."`
	To     date   `required:"" placeholder:"DATE" help:"Last day, YYYY-MM-DD."`
	Format string `required:"" enum:"csv,jsonl,parquet" placeholder:"FORMAT" help:"csv, jsonl or parquet. In csv, a quote (') precedes keys that a spreadsheet would run as a formula; import removes it."`
	Output string `placeholder:"FILE" help:"Where to write it; default: standard output."`
}

// Validate implements kong's check of a command line.
func (c *archiveExport) Validate() error {
	if c.From.Date > c.To.Date {
		return fmt.Errorf("--from %s is after --to %s", c.From, c.To)
	}
	return nil
}

func (c *archiveExport) Run(ctx context.Context, con *console.Console) error {
	format, err := archive.ParseFormat(c.Format)
	if err != nil {
		return err
	}
	if c.Output == "" && format == archive.Parquet && console.IsTerminal(con.Stdout) {
		return errors.New("a Parquet file is binary: name a file with --output FILE, or redirect the output")
	}
	return c.use(ctx, con.Now, func(_ *sqlstore.Store, history *archive.History, property sqlstore.Property) error {
		records := history.Export(ctx, property.ID, translate.DateRange{Start: c.From.Date, End: c.To.Date})
		if c.Output == "" {
			return archive.WriteRecords(con.Stdout, format, records)
		}
		return replaceFile(c.Output, func(w io.Writer) error { return archive.WriteRecords(w, format, records) })
	})
}

// replaceFile atomically replaces a file with the output of write, which only its owner can read. If that fails, the file stays as it was.
func replaceFile(path string, write func(io.Writer) error) error {
	if before, err := os.Stat(path); err == nil && !before.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file; leave out --output to write to standard output", path)
	}
	part, err := os.OpenFile(path+".part-"+rand.Text(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = write(part)
	if err == nil {
		err = part.Sync()
	}
	err = errors.Join(err, part.Close())
	if err == nil {
		err = os.Rename(part.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}

type archiveImport struct {
	archiveFlags
	console.Output
	File    string `arg:"" help:"File with the columns date,dimension,key,clicks,impressions,position, as export writes them."`
	Format  string `enum:",csv,jsonl,parquet" default:"" placeholder:"FORMAT" help:"csv, jsonl or parquet; default: by the extension of FILE."`
	Replace bool   `help:"Replace days that are archived already; default: keep them. Each dimension of a day counts on its own."`
}

// Validate implements kong's check of a command line.
func (c *archiveImport) Validate() error {
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
		result, err := c.read(ctx, con.Now(), history, property.ID)
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
func (c *archiveImport) read(ctx context.Context, now time.Time, history *archive.History, property string) (archive.ImportResult, error) {
	var none archive.ImportResult
	format, err := c.format()
	if err != nil {
		return none, err
	}
	calendar, err := translate.NewCalendar()
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
	return history.Import(ctx, property, archive.ReadRecords(file, info.Size(), format),
		archive.ImportOptions{Until: calendar.Anchor(now), Replace: c.Replace})
}
