package bulkexport

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sara/archive/tablefile"
)

// A Table is the kind of a file, as its columns show.
type Table int

// The tables. Records are what the archive itself exports.
const (
	Unknown Table = iota
	Records
	Site
	URL
	Log
	Empty
)

// An Input is a file to import.
type Input struct {
	Path  string
	Table Table
	// Columns are those of the file, and Format its format, for messages.
	Columns []string
	Format  tablefile.Format
	// Named means that the command names the file itself, not its folder.
	Named bool
	// Err is why the file cannot be read.
	Err error
}

// The columns that are read, in the order of their constants.
func siteColumns() []string {
	return []string{"data_date", "site_url", "search_type", "impressions", "clicks", "sum_top_position", "country", "device",
		"query", "is_anonymized_query"}
}

func urlColumns() []string {
	return []string{"data_date", "site_url", "search_type", "impressions", "clicks", "sum_position", "url"}
}

func logColumns() []string { return []string{"data_date", "namespace"} }

func recordColumns() []string {
	return []string{"date", "dimension", "key", "clicks", "impressions", "position"}
}

// Find returns the files of paths, each once. A path is a file, a folder with everything below it, or a pattern such as
// 'site/*.parquet'. In folders it skips names that start with a dot or an underscore, which other programs use for files without data.
func Find(paths []string) ([]Input, error) {
	f := finder{seen: make(map[string]bool)}
	for _, path := range paths {
		if err := f.add(path); err != nil {
			return nil, err
		}
	}
	return f.found, nil
}

type finder struct {
	found []Input
	seen  map[string]bool // by their real paths
}

func (f *finder) add(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?[") {
		return f.addPattern(path)
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return f.addFolder(path)
	}
	return f.addFile(path, true)
}

func (f *finder) addPattern(pattern string) error {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("%s: %w", pattern, err)
	}
	if len(matches) == 0 {
		return fmt.Errorf("%s: no file matches", pattern)
	}
	for _, path := range matches {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return err
		case isHidden(path):
		case info.IsDir():
			err = f.addFolder(path)
		default:
			err = f.addFile(path, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) addFolder(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != folder && isHidden(path) && entry.IsDir():
			return filepath.SkipDir
		case entry.IsDir() || isHidden(path):
			return nil
		}
		return f.addFile(path, false)
	})
}

func isHidden(path string) bool { return strings.IndexByte("._", filepath.Base(path)[0]) >= 0 }

func (f *finder) addFile(path string, named bool) error {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil || f.seen[real] {
		return err
	}
	f.seen[real] = true
	file, err := tablefile.Open(path)
	if err != nil {
		f.found = append(f.found, Input{Path: path, Named: named, Err: err})
		return nil
	}
	in := Input{Path: path, Named: named, Columns: file.Columns(), Format: file.Format()}
	in.Table = tableOf(in)
	f.found = append(f.found, in)
	return file.Close()
}

func tableOf(in Input) Table {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(in.Columns, n) })
	}
	switch {
	case in.Format == tablefile.Empty:
		return Empty
	case has("sum_top_position", "site_url"):
		return Site
	case has("sum_position", "site_url"):
		return URL
	case has(logColumns()...):
		return Log
	case has(recordColumns()...):
		return Records
	}
	return Unknown
}

// columns returns the columns to read from a file. A missing one is an error, except in JSON, which leaves null out.
func (in Input) columns() ([]string, error) {
	columns := siteColumns()
	switch in.Table {
	case URL:
		columns = urlColumns()
	case Log:
		columns = logColumns()
	}
	for _, name := range columns {
		if in.Format != tablefile.JSON && name != "is_anonymized_query" && !slices.Contains(in.Columns, name) {
			return nil, fmt.Errorf("column %s is missing", name)
		}
	}
	return columns, nil
}

// open opens the file of an input, with a cell for each column to read.
func (in Input) open() (*tablefile.File, []tablefile.Cell, error) {
	file, err := tablefile.Open(in.Path)
	if err != nil {
		return nil, nil, err
	}
	names, err := in.columns()
	if err == nil {
		err = file.Choose(names...)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, make([]tablefile.Cell, len(names)), nil
}

// IsIgnorable reports whether a file found in a folder is not part of the export, such as a text for people.
func (in Input) IsIgnorable() bool {
	isText := in.Err != nil || in.Format == tablefile.CSV
	return !in.Named && in.Table == Unknown && isText && !slices.Contains([]string{"", ".csv", ".gz", ".json", ".avro", ".parquet"},
		strings.ToLower(filepath.Ext(in.Path)))
}

// Explain returns why a file cannot be imported.
func (in Input) Explain() string {
	switch {
	case in.Err != nil:
		return in.Err.Error()
	case in.Table == Empty:
		return "it is empty"
	case in.Format == tablefile.CSV && len(in.Columns) > 1 && !slices.ContainsFunc(in.Columns, isName):
		return "it has no header line, so its columns are unknown: export it again with header=true (EXPORT DATA OPTIONS(…, header=true)), or as Parquet"
	}
	return fmt.Sprintf("its columns match neither table of the bulk export, nor %s: %.200s", strings.Join(recordColumns(), ","),
		strings.Join(in.Columns, ","))
}

// isName reports whether a field of a first line is the name of a column of the export.
func isName(field string) bool {
	return slices.Contains(siteColumns(), field) || slices.Contains(urlColumns(), field)
}
