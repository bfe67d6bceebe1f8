package sqlstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// migrationPatience bounds how long a process waits for another one to migrate.
	migrationPatience = 5 * time.Minute
	migrationPoll     = 100 * time.Millisecond
	// migrationNotice is after how long a wait is announced: most end before.
	migrationNotice = time.Second
	// lockForMigration keeps other processes from migrating the same schema until its transaction ends. A session lock would stay with a
	// pooler's session, and lock out the next process. It does not wait: a process that waits in a transaction occupies a session of the
	// pooler, whose pool may be so small that none is left for the migration.
	lockForMigration = "SELECT pg_try_advisory_xact_lock(1935766625, hashtext(current_schema()))"
)

// Migrate brings the schema up to date and returns the number of steps it applied. If several processes migrate one database at
// the same time, all succeed and each step runs once. A step that fails leaves no trace. The schema of a newer program is a
// SchemaError, and is not changed. Once Migrate has succeeded, a store of New can be used.
func (s *Store) Migrate(ctx context.Context) (applied int, err error) {
	if applied, err = s.migrate(ctx); err != nil {
		s.opening.fail(err)
		return applied, err
	}
	s.opening.succeed()
	return applied, nil
}

func (s *Store) migrate(ctx context.Context) (applied int, err error) {
	provider, err := s.migrator()
	if err != nil {
		return 0, err
	}
	current, known, err := s.SchemaVersion(ctx)
	if err != nil || current >= known {
		return 0, errors.Join(err, newerSchema(current, known))
	}
	if s.dialect == postgresDialect {
		unlock, err := s.lockMigration(ctx)
		if err != nil {
			return 0, err
		}
		defer unlock()
	}
	if applied, err = s.apply(ctx, provider); err != nil {
		return applied, err
	}
	current, known, err = s.SchemaVersion(ctx) // a newer program may have migrated meanwhile
	return applied, errors.Join(err, newerSchema(current, known))
}

// lockMigration waits until no other process is migrating the schema. The lock keeps one connection until unlock is called.
func (s *Store) lockMigration(ctx context.Context) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, migrationPatience)
	defer cancel()
	began, announce := s.now(), s.onWait
	for {
		unlock, err := s.tryLockMigration(ctx)
		if err != nil {
			return nil, fmt.Errorf("lock the %s schema: %w", s.dialect, err)
		}
		if unlock != nil {
			return unlock, nil
		}
		if waited := s.now().Sub(began); waited >= migrationNotice && announce != nil {
			announce(migrationPatience)
			announce = nil
		}
		select {
		case <-time.After(migrationPoll):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another process to migrate the %s schema: %w", s.dialect, ctx.Err())
		}
	}
}

// tryLockMigration returns nil if another process has the lock. ctx bounds the attempt; the lock outlives it.
func (s *Store) tryLockMigration(ctx context.Context) (unlock func(), err error) {
	// A transaction ends with its context, but this one must last until unlock is called.
	lasting, end := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, end)
	defer detach()
	tx, err := s.pools.reports.BeginTx(lasting, nil)
	if err != nil {
		end()
		return nil, errors.Join(ctx.Err(), err)
	}
	locked, err := one(lasting, tx, scalar[bool], lockForMigration)
	unlock = func() {
		_ = tx.Rollback() // it changed nothing; a lost connection has released the lock too
		end()
	}
	if err != nil || !locked || !detach() {
		unlock()
		return nil, errors.Join(ctx.Err(), err)
	}
	return unlock, nil
}

// apply runs the missing steps.
func (s *Store) apply(ctx context.Context, provider *goose.Provider) (applied int, err error) {
	version := int64(-1)
	for {
		results, err := provider.Up(ctx)
		applied += len(results)
		if err == nil {
			return applied, nil
		}
		if partial, ok := errors.AsType[*goose.PartialError](err); ok {
			applied += len(partial.Applied)
		}
		// SQLite has no lock that outlives a transaction, so another process may have applied the same step first. Retry while
		// the version advances.
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
	current, err = one(ctx, s.pools.reports, scalar[int64], "SELECT coalesce(max(version_id), 0) FROM goose_db_version")
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
	language := goose.DialectSQLite3
	if s.dialect == postgresDialect {
		language = goose.DialectPostgres
	}
	provider, err := goose.NewProvider(language, s.pools.jobs, files, goose.WithDisableGlobalRegistry(true),
		goose.WithGoMigrations(s.dialect.appendOnly()))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, nil
}
