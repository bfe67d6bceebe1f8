// Package sqlitetest makes SQLite databases for tests. Migrating one takes longer than most tests, so it is done once per process.
package sqlitetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"sara/archive/sqlstore"
)

// Create makes an empty, migrated database in a new file.
func Create(tb testing.TB, file string) {
	tb.Helper()
	database, err := migrated()
	if err == nil {
		err = os.WriteFile(file, database, 0o600)
	}
	if err != nil {
		tb.Fatalf("create a SQLite database: %v", err)
	}
}

var migrated = sync.OnceValues(func() (database []byte, err error) {
	folder, err := os.MkdirTemp("", "sqlitetest")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, "sara.db")
	store, err := sqlstore.Open(context.Background(), sqlstore.Config{URL: "sqlite:" + file})
	if err != nil {
		return nil, err
	}
	_, err = store.Migrate(context.Background())
	if err = errors.Join(err, store.Close()); err != nil { // the last handle: everything is in the file
		return nil, err
	}
	return os.ReadFile(file)
})
