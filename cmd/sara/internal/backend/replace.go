package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/settings"
)

// ReplaceDatabase fills a database by a restore. It refuses one that another process uses, and one that has accounts, unless it is forced. A
// file of SQLite is written next to the old one and then renamed, so that a failure changes nothing; kept is the new path of the old
// file, empty if there was none.
func ReplaceDatabase(ctx context.Context, s settings.Store, force bool, now time.Time,
	restore func(context.Context, *sqlstore.Store) error) (kept string, err error) {
	switch {
	case s.DatabaseURL.File == inMemory:
		return "", settings.Errorf("SARA_DATABASE_URL", "%v ends with this command: name a file, or a PostgreSQL database", s.DatabaseURL)
	case s.DatabaseURL.File == "":
		return "", replaceTables(ctx, s, force, restore)
	case MissingFile(s.DatabaseURL) == "" && !force:
		check := func(ctx context.Context, store *sqlstore.Store) error { return checkEmpty(ctx, s, store) }
		if err := withConnected(ctx, s, check); err != nil {
			return "", err
		}
	}
	return replaceFile(ctx, s, now, restore)
}

// checkEmpty returns an error for a database that has accounts.
func checkEmpty(ctx context.Context, s settings.Store, store *sqlstore.Store) error {
	empty, err := store.IsEmpty(ctx)
	if err == nil && !empty {
		err = settings.Errorf("SARA_DATABASE_URL", "%v has accounts: restore into an empty database, or repeat the command with --force, "+
			"which replaces everything in it", s.DatabaseURL)
	}
	return err
}

func withConnected(ctx context.Context, s settings.Store, do func(context.Context, *sqlstore.Store) error) error {
	store, err := ConnectDatabase(ctx, s, Notices{})
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, store), store.Close())
}

// replaceTables restores into a database of PostgreSQL.
func replaceTables(ctx context.Context, s settings.Store, force bool, restore func(context.Context, *sqlstore.Store) error) error {
	return withConnected(ctx, s, func(ctx context.Context, store *sqlstore.Store) error {
		if !force {
			if err := checkEmpty(ctx, s, store); err != nil {
				return err
			}
		}
		if err := checkIdle(ctx, s, store); err != nil {
			return err
		}
		return restore(ctx, store)
	})
}

// checkIdle returns an error if another process uses the database, which takes a schema. A server would find the tables missing, then empty,
// and refuse all keys; what a job writes would be lost, or make the restore fail.
func checkIdle(ctx context.Context, s settings.Store, store *sqlstore.Store) error {
	current, _, err := store.SchemaVersion(ctx)
	if err != nil || current == 0 {
		return err
	}
	others, err := store.OtherProcesses(ctx)
	if err == nil && len(others) > 0 {
		err = settings.Errorf("SARA_DATABASE_URL", "%v is in use by %s: stop all servers first", s.DatabaseURL, strings.Join(others, "; "))
	}
	return err
}

// replaceFile restores into a new file, and puts it in the place of the old one.
func replaceFile(ctx context.Context, s settings.Store, now time.Time, restore func(context.Context, *sqlstore.Store) error) (
	kept string, err error) {
	file := Linked(s.DatabaseURL.File)
	if err := checkUnused(file); err != nil {
		return "", err
	}
	part := file + ".restoring"
	if err := removeDatabase(part); err != nil {
		return "", err
	}
	into := s
	into.DatabaseURL = settings.SQLite(part)
	if err = withConnected(ctx, into, restore); err == nil {
		err = checkWhole(part)
	}
	if err == nil {
		kept, err = swap(part, file, now)
	}
	if err != nil {
		return "", errors.Join(err, removeDatabase(part))
	}
	return kept, nil
}

// Linked follows symbolic links to a file, which may not exist yet, and returns any other file unchanged. A rename onto a link would replace
// the link, and leave the data on another disk than the one that was meant for it.
func Linked(file string) string {
	const most = 40 // like the operating system
	for range most {
		to, err := os.Readlink(file)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(file), to)
		}
		file = to
	}
	return file
}

// checkUnused returns an error if a server has the file open: it would keep using the old file, and what it writes would be lost.
func checkUnused(file string) error {
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	inUse, err := sqlstore.FileInUse(file)
	if err == nil && inUse {
		err = settings.Errorf("SARA_DATABASE_URL", "%s: another process uses it: stop all servers first", file)
	}
	return err
}

// checkWhole returns an error unless all of a database that was closed is in its file. SQLite moves the content of its log
// there, and then deletes the log. It reports no error if it cannot.
func checkWhole(file string) error {
	info, err := os.Stat(file + logSuffix)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	return errors.Join(err, fmt.Errorf("%s could not be written whole: is the disk full?", file))
}

// swap puts part in the place of a file, and returns the new path of that file, if there was one. If it fails, nothing has moved. A log
// without its database is moved as well: SQLite would take it for the log of the new one.
func swap(part, file string, now time.Time) (kept string, err error) {
	aside := fmt.Sprintf("%s.before-restore-%s", file, now.UTC().Format("20060102T150405.000Z"))
	if _, err := os.Stat(file); err == nil {
		kept = aside
	}
	if err := moveDatabase(file, aside); err != nil {
		return "", err
	}
	if err := os.Rename(part, file); err != nil {
		return "", errors.Join(err, moveDatabase(aside, file))
	}
	return kept, nil
}

// moveDatabase renames the existing files of a database, or none if one of them cannot be renamed. An error names where each is.
func moveDatabase(from, to string) error {
	for i, suffix := range sideFiles() {
		err := os.Rename(from+suffix, to+suffix)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			continue
		}
		for _, moved := range sideFiles()[:i] {
			if back := os.Rename(to+moved, from+moved); back != nil && !errors.Is(back, os.ErrNotExist) {
				err = errors.Join(err, back)
			}
		}
		return err
	}
	return nil
}

// sideFiles are the suffixes of the files of a SQLite database, the database itself first.
func sideFiles() []string { return []string{"", logSuffix, "-shm"} }

const logSuffix = "-wal"

func removeDatabase(file string) error {
	for _, suffix := range sideFiles() {
		if err := os.Remove(file + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
