package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sara/archive/bulkexport"
	"sara/archive/tablefile"
	"sara/cmd/sara/internal/console"
)

// sortedFiles are the files to import, by what they have.
type sortedFiles struct {
	records []string           // with the six columns
	tables  []bulkexport.Input // of the bulk export
}

// sort finds the files, and says which it leaves out.
func (i importing) sort() (files sortedFiles, err error) {
	found, err := bulkexport.Find(i.Paths)
	if err != nil {
		return files, err
	}
	if len(found) == 0 {
		return files, fmt.Errorf("%s: there is no file", strings.Join(i.Paths, ", "))
	}
	for _, in := range found {
		if in.Format == tablefile.CSV {
			noteUnended(i.con, in.Path)
		}
		switch {
		case in.Table == bulkexport.Site || in.Table == bulkexport.URL:
			files.tables = append(files.tables, in)
		case in.Table == bulkexport.Records || len(i.Paths) == 1 && in.Named && i.isOwn(in):
			files.records = append(files.records, in.Path) // or a broken one: the archive's reader names its error
		case in.Table == bulkexport.Empty:
			i.con.Note("%s is left out: it is empty", in.Path)
		case in.Table == bulkexport.Log:
			i.con.Note("%s is left out: it is an export log, which --export-log names", in.Path)
		case in.IsIgnorable():
			i.con.Note("%s is left out: it is no file of an export", in.Path)
		default:
			return files, fmt.Errorf("%s: %s", in.Path, in.Explain())
		}
	}
	if len(files.records) > 0 && len(files.tables) > 0 {
		return files, fmt.Errorf("%s has the columns of an archive, and %s those of the bulk export: import one after the other",
			files.records[0], files.tables[0].Path)
	}
	if names := partitions(files.records); len(names) > 1 {
		return files, fmt.Errorf("the files are of several properties (%s): import those of one at a time", strings.Join(names, ", "))
	}
	if len(files.records)+len(files.tables) == 0 {
		return files, fmt.Errorf("%s: there is no file with rows", strings.Join(i.Paths, ", "))
	}
	return files, nil
}

// noteUnended names a CSV file whose last line has no end. Many programs write none, so it may be whole; but nothing else shows that a file
// was cut within its last field. An error is left to the import. The end of a compressed file is checked when it is unpacked.
func noteUnended(con *console.Console, path string) {
	if filepath.Ext(path) == ".gz" {
		return
	}
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }() // it was only read
	var last [1]byte
	if _, err := file.Seek(-1, io.SeekEnd); err != nil {
		return
	}
	if _, err := file.Read(last[:]); err == nil && last[0] != '\n' {
		con.Note("%s does not end with a line end: if it was cut, its last row is wrong and the ones after it are missing", path)
	}
}

// partitions returns the names of the properties whose folders the files are in, as export writes them, in order.
func partitions(paths []string) (names []string) {
	for _, path := range paths {
		for folder := range strings.SplitSeq(filepath.ToSlash(path), "/") {
			if name, ok := strings.CutPrefix(folder, partitionPrefix); ok && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// isOwn reports whether the only file is meant to have the six columns, by its extension, and unless it has more.
func (c *archiveImport) isOwn(in bulkexport.Input) bool {
	const columns = 6
	_, err := c.format()
	return err == nil && len(in.Columns) <= columns
}
