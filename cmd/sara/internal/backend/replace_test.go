package backend

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/settings"
)

// replace restores an empty database into a file of SQLite.
func replace(t *testing.T, s settings.Store) (kept string, err error) {
	t.Helper()
	return replaceAt(t, s, time.Unix(0, 0))
}

func replaceAt(t *testing.T, s settings.Store, now time.Time) (kept string, err error) {
	t.Helper()
	return ReplaceDatabase(t.Context(), s, true, now, func(ctx context.Context, store *sqlstore.Store) error {
		_, err := store.Migrate(ctx)
		return err
	})
}

// A broken database can be replaced. If that fails after its file was moved, it is moved back.
func TestFailedReplacementChangesNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sara.db")
	kept := file + ".before-restore-19700101T000000.000Z"
	for name, text := range map[string]string{file: strings.Repeat("no database ", 1000), file + "-wal": "no log", kept + "-wal/x": ""} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s := settings.Store{DatabaseURL: settings.SQLite(file)}
	_, err := replace(t, s)
	if err == nil || !strings.Contains(err.Error(), kept+"-wal") {
		t.Errorf("with a folder in the way: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), "no database") {
		t.Errorf("the database has %.20q, %v", text, err)
	}
	for _, name := range []string{kept, file + ".restoring"} {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.RemoveAll(kept + "-wal"); err != nil {
		t.Fatal(err)
	}
	if got, err := replace(t, s); got != kept || err != nil {
		t.Errorf("it keeps %q, %v", got, err)
	}
}

// Of two replacements in one second, such as those of a script, each keeps the database that it replaced.
func TestEachReplacementKeepsTheDatabase(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sara.db")
	if err := os.WriteFile(file, []byte("the first one"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := settings.Store{DatabaseURL: settings.SQLite(file)}
	first, err := replace(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replaceAt(t, s, time.UnixMilli(250)); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(first); err != nil || string(text) != "the first one" {
		t.Errorf("%s has %.20q, %v", first, text, err)
	}
}

// SQLite writes into a log, and from there into the database when that is closed. It reports no error if it cannot, as on a full disk. Here another
// process has the database open.
func TestDatabaseThatIsPartlyInItsLogIsNotUsed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sara.db")
	if err := os.WriteFile(file, []byte("the one before"), 0o600); err != nil {
		t.Fatal(err)
	}
	restore := func(ctx context.Context, store *sqlstore.Store) error {
		other, err := sqlstore.Open(ctx, sqlstore.Config{URL: "sqlite:" + file + ".restoring"})
		if err == nil {
			t.Cleanup(func() { _ = other.Close() }) // its file is deleted
			_, _, err = other.SchemaVersion(ctx)
		}
		_, migrateErr := store.Migrate(ctx)
		return errors.Join(err, migrateErr)
	}
	kept, err := ReplaceDatabase(t.Context(), settings.Store{DatabaseURL: settings.SQLite(file)}, true, time.Unix(0, 0), restore)
	if kept != "" || err == nil || !strings.Contains(err.Error(), "is the disk full?") {
		t.Errorf("it keeps %q, %v", kept, err)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if text, readErr := os.ReadFile(file); string(text) != "the one before" || readErr != nil || len(entries) != 1 || err != nil {
		t.Errorf("the database has %.20q, %v; %d files, %v", text, readErr, len(entries), err)
	}
}

// The log of a database whose file was deleted must not become that of the new one: SQLite would apply it to the new database.
func TestLogOfADeletedDatabaseIsNotUsed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, old := filepath.Join(folder, "sara.db"), filepath.Join(folder, "old.db")
	killed, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: "sqlite:" + old})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = killed.Close() }() // it was as if its process had been killed
	if _, err := killed.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(old + "-wal")
	if err != nil || len(log) == 0 || os.WriteFile(file+"-wal", log, 0o600) != nil {
		t.Fatalf("a log of %d bytes, %v", len(log), err)
	}
	s := settings.Store{DatabaseURL: settings.SQLite(file)}
	kept, err := ReplaceDatabase(t.Context(), s, false, time.Unix(0, 0), func(ctx context.Context, store *sqlstore.Store) error {
		_, err := store.Migrate(ctx)
		if err == nil {
			_, err = store.AddAccount(ctx, "restored", "pro", nil)
		}
		return err
	})
	if kept != "" || err != nil {
		t.Fatalf("it keeps %q, %v", kept, err)
	}
	err = withConnected(t.Context(), s, func(ctx context.Context, store *sqlstore.Store) error {
		accounts, err := store.Accounts(ctx)
		if len(accounts) != 1 {
			t.Errorf("%d accounts", len(accounts))
		}
		return err
	})
	if left, readErr := os.ReadFile(file + ".before-restore-19700101T000000.000Z-wal"); err != nil || !bytes.Equal(left, log) {
		t.Errorf("%v; of the log, %d of %d bytes are kept, %v", err, len(left), len(log), readErr)
	}
}

// A link to a database on another disk stays, and the restored database is on that disk.
func TestLinkedDatabaseIsReplacedInItsPlace(t *testing.T) {
	t.Parallel()
	disk, link := t.TempDir(), filepath.Join(t.TempDir(), "sara.db")
	file := filepath.Join(disk, "data.db")
	if err := errors.Join(os.WriteFile(file, []byte("the one before"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	kept, err := replace(t, settings.Store{DatabaseURL: settings.SQLite(link)})
	if text, readErr := os.ReadFile(kept); err != nil || string(text) != "the one before" || readErr != nil || filepath.Dir(kept) != disk {
		t.Errorf("it keeps %q of %.20q: %v, %v", kept, text, err, readErr)
	}
	isThere := func() {
		t.Helper()
		text, err := os.ReadFile(file)
		if to, linkErr := os.Readlink(link); to != file || linkErr != nil || err != nil || !strings.HasPrefix(string(text), "SQLite") {
			t.Errorf("the link is to %q (%v), and there is %.20q (%v)", to, linkErr, text, err)
		}
	}
	isThere()
	if err := os.Remove(file); err != nil { // as on a new disk
		t.Fatal(err)
	}
	if kept, err := replace(t, settings.Store{DatabaseURL: settings.SQLite(link)}); kept != "" || err != nil {
		t.Errorf("it keeps %q, %v", kept, err)
	}
	isThere()
}

func TestDatabaseInMemoryIsNotRestored(t *testing.T) {
	t.Parallel()
	if _, err := replace(t, settings.Store{DatabaseURL: settings.SQLite(inMemory)}); err == nil ||
		!strings.Contains(err.Error(), "ends with this command") {
		t.Errorf("restored into nothing: %v", err)
	}
}
