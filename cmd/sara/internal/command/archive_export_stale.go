package command

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
)

// propertiesFile is the file of an export with its properties.
const propertiesFile = "properties.csv"

// partition returns the folder of a property in an export.
func partition(name string) string { return partitionPrefix + name }

// removeStale deletes what an earlier export in the folder has of properties that were removed since, or have another name in this one: the
// folder is read as one table, which would count them too. names are those of the properties that are exported now.
func removeStale(ctx context.Context, con *console.Console, store *sqlstore.Store, folder string, names []string, properties []sqlstore.Property) error {
	stored, err := store.Properties(ctx)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only opened
	for name, id := range earlierExport(root) {
		hasID := func(p sqlstore.Property) bool { return p.ID == id }
		at := slices.IndexFunc(properties, hasID)
		isExported, isStored := at >= 0, slices.ContainsFunc(stored, hasID)
		if isExported && names[at] == name || !isExported && isStored {
			continue
		}
		if _, err := root.Stat(partition(name)); err != nil {
			continue
		}
		if err := root.RemoveAll(partition(name)); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(con.Stderr, "sara: deleted %s: its property was removed, or has another name now\n", filepath.Join(folder, partition(name))) // the export goes on without it
	}
	return nil
}

// earlierExport returns the ids of the properties in an export by name; empty if there is none, or none that can be read.
func earlierExport(root *os.Root) map[string]string {
	file, err := root.Open(propertiesFile)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // it was only read
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) == 0 || len(rows[0]) < 2 || rows[0][0] != "property" || rows[0][1] != "id" {
		return nil
	}
	ids := make(map[string]string, len(rows)-1)
	for _, row := range rows[1:] {
		if filepath.Base(partition(row[0])) == partition(row[0]) { // a name, not a path
			ids[row[0]] = row[1]
		}
	}
	return ids
}
