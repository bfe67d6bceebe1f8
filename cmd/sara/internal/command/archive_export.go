package command

import (
	"context"
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
	"sara/archive/atomicfile"
	"sara/archive/filelock"
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
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		properties, err := admin.Admin{Store: store}.Properties(ctx, c.Property)
		if err != nil {
			return err
		}
		history, err := backend.OpenArchive(c.Archive, con.Now)
		if err != nil {
			return err
		}
		e := exporting{c, con, history, format}
		if admin.IsPattern(c.Property) {
			return e.folder(ctx, store, properties)
		}
		return e.file(ctx, properties[0])
	})
}

// An exporting is an export under way.
type exporting struct {
	*archiveExport
	con     *console.Console
	history *archive.History
	format  archive.Format
}

func (e exporting) file(ctx context.Context, p sqlstore.Property) error {
	e.noteMissing(ctx, p)
	records := e.history.Export(ctx, p.ID, translate.DateRange{Start: e.From.Date, End: e.To.Date})
	if e.toStdout() {
		return archive.WriteRecords(e.con.Stdout, e.format, records)
	}
	if info, err := os.Stat(e.Output); err == nil && info.Mode().IsRegular() && !e.Force {
		if err := e.con.ConfirmOverwrite(ctx, e.Output+" exists.", "--force to overwrite it"); err != nil {
			return err
		}
	}
	return replaceFile(backend.Linked(e.Output), func(w io.Writer) error { return archive.WriteRecords(w, e.format, records) })
}

// noteMissing says if none of the days is archived: an export without rows looks like that of a site without traffic.
func (e exporting) noteMissing(ctx context.Context, p sqlstore.Property) {
	inventory, err := e.history.Days(ctx, p.ID)
	if err != nil {
		return // the export itself fails, unless the damage is in other days
	}
	switch first, last := inventory.Bounds(); {
	case first == nil:
		e.con.Note("no day of %s is archived: sara collect archives what Search Console has", p.Site)
	case !inventory.HasAny(translate.DateRange{Start: e.From.Date, End: e.To.Date}):
		e.con.Note("none of these days of %s is archived: the archive begins on %s and ends on %s", p.Site, *first, *last)
	}
}

// folder writes properties into a folder, which no other run may write into meanwhile.
func (e exporting) folder(ctx context.Context, store *sqlstore.Store, properties []sqlstore.Property) error {
	entries, err := os.ReadDir(e.Output)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 && !e.Force {
		if err := e.con.ConfirmOverwrite(ctx, e.Output+" is not empty.", "--force to overwrite it"); err != nil {
			return err
		}
	}
	root, err := filelock.OpenFolder(e.Output)
	if err != nil {
		return err
	}
	err = atomicfile.RemoveAbandoned(root.Root, ".", partitionPrefix+"*/"+monthPrefix+"*")
	if err == nil {
		err = e.into(ctx, root.Root, store, properties)
	}
	return errors.Join(err, root.Close())
}

// into writes a file for each property and month that has rows, and one with the properties.
func (e exporting) into(ctx context.Context, root *os.Root, store *sqlstore.Store, properties []sqlstore.Property) error {
	stored, err := store.Properties(ctx)
	if err != nil {
		return err
	}
	exported := nameFolders(properties, stored)
	kept, err := removeStale(e.con, root, exported, stored)
	if err != nil {
		return err
	}
	// The list comes first, so that after an interruption, the next export knows whose files are in the folder.
	if err := writeProperties(e.Output, slices.Concat(exported, kept)); err != nil {
		return err
	}
	var files []string
	for _, p := range exported {
		written, err := e.months(ctx, p.property, filepath.Join(e.Output, p.folder()))
		if err != nil {
			return err
		}
		files = append(files, written...)
	}
	if err := e.noteOthers(files); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.con.Stdout, "%s of %s %s in %s\n", english.Plural(len(files), "month", ""), english.Plural(len(properties), "property", ""),
		english.PluralWord(len(files), "is", "are"), e.Output)
	return err
}

// noteOthers says which files of an earlier export are still in the folder: who reads it as one table reads them too.
func (e exporting) noteOthers(written []string) error {
	found, err := fs.Glob(os.DirFS(e.Output), partitionPrefix+"*/"+monthPrefix+"*/data.*")
	if err != nil {
		return err
	}
	isNew := make(map[string]bool, len(written))
	for _, path := range written {
		isNew[path] = true
	}
	others := slices.DeleteFunc(found, func(name string) bool { return isNew[filepath.Join(e.Output, filepath.FromSlash(name))] })
	if len(others) > 0 {
		e.con.Note("files of an earlier export are in %s, too, and part of the table: %d, first %s", e.Output, len(others), others[0])
	}
	return nil
}

// months writes a file for each month that has rows, and returns their paths.
func (e exporting) months(ctx context.Context, p sqlstore.Property, folder string) (files []string, err error) {
	inventory, err := e.history.Days(ctx, p.ID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Site, err)
	}
	first, last := inventory.Bounds()
	if first == nil {
		return nil, nil
	}
	from, to := *first, *last
	if e.From != nil {
		from = max(from, e.From.Date)
	}
	if e.To != nil {
		to = min(to, e.To.Date)
	}
	for _, days := range (translate.DateRange{Start: from, End: to}).ByMonth() {
		path := filepath.Join(folder, monthPrefix+monthName(days.Start), "data."+string(e.format))
		written, err := e.month(ctx, p, days, path)
		if err != nil {
			return files, err
		}
		if written {
			files = append(files, path)
		}
	}
	return files, nil
}

// month writes a file unless it would have no rows.
func (e exporting) month(ctx context.Context, p sqlstore.Property, days translate.DateRange, path string) (written bool, err error) {
	for _, err := range e.history.Export(ctx, p.ID, days) { // reads up to the first row
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
		return archive.WriteRecords(w, e.format, e.history.Export(ctx, p.ID, days))
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
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return errors.Join(atomicfile.Replace(root, filepath.Base(path), write), root.Close())
}
