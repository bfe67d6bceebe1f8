package command

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"sara/archive"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
)

// propertiesFile is the file of an export with its properties.
const propertiesFile = "properties.csv"

// A partition is a property of an export, in a folder of its own.
type partition struct {
	name     string
	property sqlstore.Property
}

func (p partition) folder() string { return partitionPrefix + p.name }

// nameFolders names the folders of properties by their slugs, or by their ids where several of the stored properties have the same slug: the
// name of a property does not depend on what is exported with it.
func nameFolders(properties, stored []sqlstore.Property) []partition {
	count := make(map[string]int)
	for _, p := range stored {
		count[p.Slug]++
	}
	return console.Each(properties, func(p sqlstore.Property) partition {
		if count[p.Slug] > 1 {
			return partition{p.ID, p}
		}
		return partition{p.Slug, p}
	})
}

// writeProperties writes the list of the properties that have files in the folder.
func writeProperties(folder string, list []partition) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return replaceFile(filepath.Join(folder, propertiesFile), func(w io.Writer) error {
		out := csv.NewWriter(w)
		err := out.Write([]string{"property", "id", "gsc_property", "domain", "type", "display_name", "archived"})
		for _, part := range list {
			p := part.property
			err = errors.Join(err, out.Write([]string{part.name, p.ID, p.Site, p.Host, p.Type, archive.GuardFormula(p.DisplayName),
				console.YesNo(p.Archived)}))
		}
		out.Flush()
		return errors.Join(err, out.Error())
	})
}

// removeStale deletes what an earlier export in the folder has of properties that were removed since, or that have another name in this one: the
// folder is read as one table, which would count them too. It returns those whose files stay although they are not exported now.
func removeStale(con *console.Console, folder string, exported []partition, stored []sqlstore.Property) (kept []partition, err error) {
	root, err := os.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // it was only opened
	earlier := earlierExport(root)
	for _, name := range slices.Sorted(maps.Keys(earlier)) {
		folder := filepath.Join(folder, partitionPrefix+name)
		if _, err := root.Stat(partitionPrefix + name); err != nil {
			continue
		}
		id := earlier[name]
		renewed := slices.ContainsFunc(exported, func(p partition) bool { return p.name == name && p.property.ID == id })
		replaced := slices.ContainsFunc(exported, func(p partition) bool { return p.name == name || p.property.ID == id })
		at := slices.IndexFunc(stored, func(p sqlstore.Property) bool { return p.ID == id })
		switch {
		case renewed:
		case at >= 0 && !replaced:
			kept = append(kept, partition{name, stored[at]})
		default:
			if err := root.RemoveAll(partitionPrefix + name); err != nil {
				return nil, err
			}
			_, _ = fmt.Fprintf(con.Stderr, "sara: deleted %s: its property was removed, or has another name now\n", folder) // the export goes on without it
		}
	}
	return kept, nil
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
		if filepath.Base(partitionPrefix+row[0]) == partitionPrefix+row[0] { // a name, not a path
			ids[row[0]] = row[1]
		}
	}
	return ids
}
