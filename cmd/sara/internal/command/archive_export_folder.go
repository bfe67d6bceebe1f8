package command

import (
	"encoding/csv"
	"errors"
	"io"
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
func removeStale(con *console.Console, root *os.Root, exported []partition, stored []sqlstore.Property) (kept []partition, err error) {
	earlier := earlierExport(root)
	var renamed []string // after the deletions, which make room
	for _, name := range slices.Sorted(maps.Keys(earlier)) {
		part, id := partition{name: name}, earlier[name]
		taken := slices.ContainsFunc(exported, func(p partition) bool { return p.name == name })
		at := slices.IndexFunc(stored, func(p sqlstore.Property) bool { return p.ID == id })
		switch now := indexOf(exported, id); {
		case !exists(root, part), now >= 0 && exported[now].name == name:
		case now >= 0:
			renamed = append(renamed, name)
		case at >= 0 && !taken:
			kept = append(kept, partition{name, stored[at]})
		default:
			if err := deleteStale(con, root, part); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range renamed {
		from, to := partition{name: name}, exported[indexOf(exported, earlier[name])]
		if exists(root, to) {
			err = deleteStale(con, root, from)
		} else if err = root.Rename(from.folder(), to.folder()); err == nil {
			con.Note("%s is renamed to %s", filepath.Join(root.Name(), from.folder()), to.folder())
		}
		if err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// indexOf returns the index of the property with an id, -1 if there is none.
func indexOf(list []partition, id string) int {
	return slices.IndexFunc(list, func(p partition) bool { return p.property.ID == id })
}

// deleteStale deletes the files of a property.
func deleteStale(con *console.Console, root *os.Root, p partition) error {
	if err := root.RemoveAll(p.folder()); err != nil {
		return err
	}
	con.Note("%s is deleted: its property was removed, or has another name now", filepath.Join(root.Name(), p.folder()))
	return nil
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
