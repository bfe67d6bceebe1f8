package command

import (
	"encoding/csv"
	"errors"
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

// writeProperties writes the list of the folder's properties.
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

// removeStale keeps what an earlier export in the folder has from being counted under two names, or for no property: the folder is read as one
// table. If a property has another name now, its folder gets that name, or is deleted where a folder has it already. Those of properties that
// were removed are deleted. It returns the properties whose files stay although they are not exported now.
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
		part := partition{name: name}
		if !exists(root, part) {
			continue
		}
		id := earlier[name]
		now := slices.IndexFunc(exported, func(p partition) bool { return p.property.ID == id })
		taken := slices.ContainsFunc(exported, func(p partition) bool { return p.name == name })
		at := slices.IndexFunc(stored, func(p sqlstore.Property) bool { return p.ID == id })
		done := ""
		switch {
		case now >= 0 && exported[now].name == name:
		case now >= 0 && !exists(root, exported[now]):
			done, err = "renamed to "+exported[now].folder(), root.Rename(part.folder(), exported[now].folder())
		case now < 0 && at >= 0 && !taken:
			kept = append(kept, partition{name, stored[at]})
		default:
			done, err = "deleted: its property was removed, or has another name now", root.RemoveAll(part.folder())
		}
		if err != nil {
			return nil, err
		}
		if done != "" {
			con.Note("%s is %s", filepath.Join(folder, part.folder()), done)
		}
	}
	return kept, nil
}

// exists reports whether an export has files of a property.
func exists(root *os.Root, p partition) bool {
	_, err := root.Stat(p.folder())
	return err == nil
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
