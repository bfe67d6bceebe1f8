package sqlstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// How often a process polls the migration lock of a PostgreSQL database.
const (
	lockPeriodSeconds = 1
	lockAttempts      = 300
)

// Migrate brings the schema up to date and returns the number of steps it applied. If several processes migrate one database at
// the same time, all succeed and each step runs once. A step that fails leaves no trace. The schema of a newer program is a
// SchemaError, and is not changed.
func (s *Store) Migrate(ctx context.Context) (applied int, err error) {
	provider, err := s.migrator()
	if err != nil {
		return 0, err
	}
	if current, known, err := s.SchemaVersion(ctx); err != nil || current > known {
		return 0, errors.Join(err, newerSchema(current, known))
	}
	version := int64(-1)
	for {
		results, err := provider.Up(ctx)
		applied += len(results)
		if err == nil {
			return applied, nil
		}
		if partial := (*goose.PartialError)(nil); errors.As(err, &partial) {
			applied += len(partial.Applied)
		}
		// SQLite has no lock that outlives a transaction, so another process may have applied the same step first. Retry as
		// long as the version advances.
		now, versionErr := provider.GetDBVersion(ctx)
		if s.dialect != sqliteDialect || versionErr != nil || now <= version {
			return applied, fmt.Errorf("migrate the %s schema: %w", s.dialect, err)
		}
		version = now
	}
}

// SchemaVersion returns the version of the database's schema, 0 for an empty database, and the version that Migrate brings it to.
// It changes nothing.
func (s *Store) SchemaVersion(ctx context.Context) (current, known int64, err error) {
	provider, err := s.migrator()
	if err != nil {
		return 0, 0, err
	}
	sources := provider.ListSources()
	known = sources[len(sources)-1].Version
	current, err = one(ctx, s.db, scalar[int64], "SELECT coalesce(max(version_id), 0) FROM goose_db_version")
	if err != nil && !isUnknownTable(err) {
		return 0, known, fmt.Errorf("read the version of the %s schema: %w", s.dialect, err)
	}
	return current, known, nil
}

func newerSchema(current, known int64) error {
	if current <= known {
		return nil
	}
	return &SchemaError{Current: current, Known: known}
}

func (s *Store) migrator() (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	language, options := goose.DialectSQLite3, []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	if s.dialect == postgresDialect {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(lockPeriodSeconds, lockAttempts))
		if err != nil {
			return nil, fmt.Errorf("make the migration lock: %w", err)
		}
		language, options = goose.DialectPostgres, append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(language, s.db, files, options...)
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, nil
}
