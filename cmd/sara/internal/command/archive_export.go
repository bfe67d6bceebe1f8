package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/admin"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
	"sara/translate"
)

type archiveExport struct {
	storeFlags
	settings.Archive
	Property string `arg:"" help:"Id, Search Console property, slug or domain; with a star, such as 'client1-*' or '*', all that match, into a folder."`
	From     *date  `placeholder:"DATE" help:"First day, YYYY-MM-DD; may be left out for a folder: from the first archived day."`
	To       *date  `placeholder:"DATE" help:"Last day, YYYY-MM-DD; may be left out for a folder: to the last archived day."`
	Format   string `enum:",csv,jsonl,parquet" default:"" placeholder:"FORMAT" help:"csv, jsonl or parquet; default: by the extension of --output, for a folder parquet. In csv, a quote (') precedes keys that a spreadsheet would run as a formula; import removes it."`
	Output   string `placeholder:"FILE" help:"File or, for several properties, folder; - or default: standard output."`
	Force    bool   `help:"Overwrite without asking; required where there is no terminal."`
}

// Help is the longer help of the command.
func (archiveExport) Help() string {
	return `A folder has a file for each property and month, property=SLUG/month=2026-01/data.parquet, which DuckDB, Spark and pandas read as one table with the columns property and month, and properties.csv with the names and ids of the properties. What an earlier export in the folder has of properties that were removed since is deleted; other months stay.`
}

// Validate implements kong's check of a command line.
func (c *archiveExport) Validate() error {
	switch {
	case c.Property == "": // kong reports it
		return nil
	case admin.IsPattern(c.Property) && c.toStdout():
		return errors.New("--output is missing: name the folder for the properties")
	case !admin.IsPattern(c.Property) && (c.From == nil || c.To == nil):
		return errors.New("missing flags: --from=DATE and --to=DATE are required for a single property")
	case c.From != nil && c.To != nil && c.From.Date > c.To.Date:
		return fmt.Errorf("--from %s is after --to %s", c.From, c.To)
	}
	_, err := c.format()
	return err
}

// toStdout reports whether the output is standard output, not a file or a folder.
func (c *archiveExport) toStdout() bool { return c.Output == "" || c.Output == standardOutput }

// format returns the format of the flag, or else that of the file's extension.
func (c *archiveExport) format() (archive.Format, error) {
	switch {
	case c.Format != "":
		return archive.ParseFormat(c.Format)
	case admin.IsPattern(c.Property):
		return archive.Parquet, nil
	}
	format, err := archive.ParseFormat(strings.ToLower(strings.TrimPrefix(filepath.Ext(c.Output), ".")))
	if err != nil {
		return "", errors.New("--format is missing: name csv, jsonl or parquet, or a file with that extension")
	}
	return format, nil
}

func (c *archiveExport) Run(ctx context.Context, con *console.Console) error {
	format, err := c.format()
	if err != nil {
		return err
	}
	if c.toStdout() && format == archive.Parquet && console.IsTerminal(con.Stdout) {
		return errors.New("a Parquet file is binary: name a file with --output FILE, or redirect the output")
	}
	return c.use(ctx, func(store *sqlstore.Store) error {
		properties, err := admin.Admin{Store: store}.Properties(ctx, c.Property)
		if err != nil {
			return err
		}
		history, err := backend.OpenArchive(c.Archive, con.Now)
		if err != nil {
			return err
		}
		if admin.IsPattern(c.Property) {
			return c.exportFolder(ctx, con, store, history, format, properties)
		}
		return c.exportFile(ctx, con, history, format, properties[0])
	})
}

func (c *archiveExport) exportFile(ctx context.Context, con *console.Console, history *archive.History, format archive.Format,
	p sqlstore.Property) error {
	c.noteMissing(ctx, con, history, p)
	records := history.Export(ctx, p.ID, translate.DateRange{Start: c.From.Date, End: c.To.Date})
	if c.toStdout() {
		return archive.WriteRecords(con.Stdout, format, records)
	}
	if info, err := os.Stat(c.Output); err == nil && info.Mode().IsRegular() && !c.Force {
		if err := con.ConfirmOverwrite(c.Output+" exists.", "--force to overwrite it"); err != nil {
			return err
		}
	}
	return replaceFile(backend.Linked(c.Output), func(w io.Writer) error { return archive.WriteRecords(w, format, records) })
}

// noteMissing says if none of the days is archived: an export without rows looks like that of a site without traffic.
func (c *archiveExport) noteMissing(ctx context.Context, con *console.Console, history *archive.History, p sqlstore.Property) {
	inventory, err := history.Days(ctx, p.ID)
	if err != nil {
		return // the export itself fails, unless the damage is in other days
	}
	switch first, last := inventory.Bounds(); {
	case first == nil:
		con.Note("no day of %s is archived: sara collect archives what Search Console has", p.Site)
	case !inventory.HasAny(translate.DateRange{Start: c.From.Date, End: c.To.Date}):
		con.Note("none of these days of %s is archived: the archive begins on %s and ends on %s", p.Site, *first, *last)
	}
}

// exportFolder writes a file for each property and month that has rows, and one with the properties.
func (c *archiveExport) exportFolder(ctx context.Context, con *console.Console, store *sqlstore.Store, history *archive.History,
	format archive.Format, properties []sqlstore.Property) error {
	entries, err := os.ReadDir(c.Output)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 && !c.Force {
		if err := con.ConfirmOverwrite(c.Output+" is not empty.", "--force to overwrite it"); err != nil {
			return err
		}
	}
	stored, err := store.Properties(ctx)
	if err != nil {
		return err
	}
	exported := nameFolders(properties, stored)
	kept, err := removeStale(con, c.Output, exported, stored)
	if err != nil {
		return err
	}
	// The list comes first, so that after an interruption, the next export knows whose files are in the folder.
	if err := writeProperties(c.Output, slices.Concat(exported, kept)); err != nil {
		return err
	}
	var files []string
	for _, p := range exported {
		written, err := c.exportMonths(ctx, history, format, p.property, filepath.Join(c.Output, p.folder()))
		if err != nil {
			return err
		}
		files = append(files, written...)
	}
	if err := c.noteOthers(con, files); err != nil {
		return err
	}
	_, err = fmt.Fprintf(con.Stdout, "%s of %s %s in %s\n", english.Plural(len(files), "month", ""), english.Plural(len(properties), "property", ""),
		english.PluralWord(len(files), "is", "are"), c.Output)
	return err
}

// noteOthers says which files of an earlier export are still in the folder: who reads it as one table reads them too.
func (c *archiveExport) noteOthers(con *console.Console, written []string) error {
	found, err := fs.Glob(os.DirFS(c.Output), partitionPrefix+"*/"+monthPrefix+"*/data.*")
	if err != nil {
		return err
	}
	isNew := make(map[string]bool, len(written))
	for _, path := range written {
		isNew[path] = true
	}
	others := slices.DeleteFunc(found, func(name string) bool { return isNew[filepath.Join(c.Output, filepath.FromSlash(name))] })
	if len(others) > 0 {
		con.Note("files of an earlier export are in %s, too, and part of the table: %d, first %s", c.Output, len(others), others[0])
	}
	return nil
}

// exportMonths writes a file for each month that has rows, and returns their paths.
func (c *archiveExport) exportMonths(ctx context.Context, history *archive.History, format archive.Format, p sqlstore.Property,
	folder string) (files []string, err error) {
	inventory, err := history.Days(ctx, p.ID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Site, err)
	}
	first, last := inventory.Bounds()
	if first == nil {
		return nil, nil
	}
	from, to := *first, *last
	if c.From != nil {
		from = max(from, c.From.Date)
	}
	if c.To != nil {
		to = min(to, c.To.Date)
	}
	for _, days := range (translate.DateRange{Start: from, End: to}).ByMonth() {
		path := filepath.Join(folder, monthPrefix+monthName(days.Start), "data."+string(format))
		written, err := writeMonth(ctx, history, format, p, days, path)
		if err != nil {
			return files, err
		}
		if written {
			files = append(files, path)
		}
	}
	return files, nil
}

// writeMonth writes a file unless it would have no rows.
func writeMonth(ctx context.Context, history *archive.History, format archive.Format, p sqlstore.Property, days translate.DateRange,
	path string) (written bool, err error) {
	for _, err := range history.Export(ctx, p.ID, days) { // reads up to the first row
		if err != nil {
			return false, err
		}
		written = true
		break
	}
	if !written {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	return true, replaceFile(path, func(w io.Writer) error {
		return archive.WriteRecords(w, format, history.Export(ctx, p.ID, days))
	})
}

// The beginnings of the names of folders.
const (
	partitionPrefix = "property="
	monthPrefix     = "month="
)

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
