package sqlstore

import (
	"context"
	"crypto/cipher"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Config says which database to open.
type Config struct {
	// URL is sqlite:PATH, sqlite::memory: (gone when the store closes) or postgres://USER:PASSWORD@HOST/DATABASE.
	URL string
	// SecretKey encrypts the stored upstream credentials: 32 bytes, or nil when no connection is used.
	SecretKey []byte
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Store is an open database. Close it when done.
type Store struct {
	db         *sql.DB
	dialect    dialect
	aead       cipher.AEAD // nil without a secret key
	now        func() time.Time
	generation atomic.Uint64
}

// How long one reading query and one writing transaction may take, waiting for locks included; and how long what reads or
// writes all URLs of a property may take.
const (
	readLimit  = 5 * time.Second
	writeLimit = 15 * time.Second
	bulkLimit  = 2 * time.Minute
)

// Open connects to the database and checks that it answers. The folder and the file of a SQLite database are made when
// they are missing, readable by their owner only. Open does not change the schema: see Migrate.
func Open(ctx context.Context, c Config) (*Store, error) {
	aead, err := newAEAD(c.SecretKey)
	if err != nil {
		return nil, err
	}
	s := &Store{aead: aead, now: c.Now}
	if s.now == nil {
		s.now = time.Now
	}
	scheme, rest, _ := strings.Cut(c.URL, ":")
	switch scheme {
	case "sqlite":
		s.dialect = sqliteDialect
		s.db, err = openSQLite(rest)
	case "postgres", "postgresql":
		s.dialect = postgresDialect
		s.db, err = openPostgres(c.URL)
	default:
		return nil, &InputError{"database URL", "it starts with none of sqlite:, postgres://"}
	}
	if err != nil {
		return nil, err
	}
	if err := s.Ping(ctx); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// Close waits for running queries and closes the database.
func (s *Store) Close() error { return s.db.Close() }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	if err := s.db.PingContext(ctx); err != nil {
		return fmt.Errorf("reach the %s database: %w", s.dialect, err)
	}
	return nil
}

// Collector returns the metrics of the store's connections to the database, which have a db_name of sara.
func (s *Store) Collector() prometheus.Collector { return collectors.NewDBStatsCollector(s.db, "sara") }

// Generation grows with every administrative write that this process committed, and with every change of a
// connection's health or a property's access that it made. Caches of what the store holds compare it.
func (s *Store) Generation() uint64 { return s.generation.Load() }

// Edition grows with everything that Generation grows with, whichever process does it. Who has remembered what the store
// holds since before an edition was read, and reads the same one again, need not read the rest again.
func (s *Store) Edition(ctx context.Context) (uint64, error) {
	changes, err := one(ctx, s.db, scalar[int64], "SELECT changes FROM edition")
	if err != nil {
		return 0, fmt.Errorf("read the edition: %w", err)
	}
	return uint64(changes), nil
}

// querier is what a database and a transaction have in common.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// scanner is one row of an answer.
type scanner interface {
	Scan(dest ...any) error
}

// all returns every row of the answer, an empty slice if there is none.
func all[T any](ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	return allWithin(ctx, readLimit, q, scan, query, args...)
}

// allWithin is all with a limit of its own.
func allWithin[T any](ctx context.Context, limit time.Duration, q querier, scan func(scanner) (T, error), query string,
	args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	found := []T{}
	for rows.Next() && err == nil {
		var v T
		v, err = scan(rows)
		found = append(found, v)
	}
	if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	return found, nil
}

// one returns the first row of the answer, or sql.ErrNoRows.
func one[T any](ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any) (T, error) {
	var none T
	found, err := all(ctx, q, scan, query, args...)
	if err != nil {
		return none, err
	}
	if len(found) == 0 {
		return none, sql.ErrNoRows
	}
	return found[0], nil
}

// scalar scans a row of one column.
func scalar[T any](row scanner) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}

// write is transact for what is served: it counts the commit.
func (s *Store) write(ctx context.Context, do func(ctx context.Context, tx *sql.Tx) error) error {
	err := s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := do(ctx, tx); err != nil {
			return err
		}
		return nextEdition(ctx, tx)
	})
	if err != nil {
		return err
	}
	s.generation.Add(1)
	return nil
}

// nextEdition counts a change of what is served, with the change itself. It has to be the last thing that a transaction does:
// they wait for each other here, and who has come this far waits for nobody else.
func nextEdition(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE edition SET changes = changes + 1")
	if err != nil {
		return fmt.Errorf("count the change: %w", err)
	}
	return nil
}

// transact runs do in one transaction, and commits it if do succeeds. On SQLite the transaction holds the database's
// write lock from its start. Everything do asks goes through tx.
func (s *Store) transact(ctx context.Context, do func(ctx context.Context, tx *sql.Tx) error) error {
	return s.transactWithin(ctx, writeLimit, nil, do)
}

// snapshot runs do in a transaction that only reads, and sees the database as it was at one time. It never locks.
func (s *Store) snapshot(ctx context.Context, limit time.Duration, do func(ctx context.Context, tx *sql.Tx) error) error {
	return s.transactWithin(ctx, limit, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}, do)
}

func (s *Store) transactWithin(ctx context.Context, limit time.Duration, options *sql.TxOptions,
	do func(ctx context.Context, tx *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tx, err := s.db.BeginTx(ctx, options)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	if err := do(ctx, tx); err != nil {
		if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) {
			return errors.Join(err, undo)
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// insert runs a statement that adds a row, and returns exists when a unique index refuses it.
func insert(ctx context.Context, tx *sql.Tx, exists error, query string, args ...any) error {
	_, err := tx.ExecContext(ctx, query, args...)
	if isUniqueViolation(err) {
		return exists
	}
	return err
}

// affected runs a statement and returns how many rows it changed.
func affected(ctx context.Context, q querier, query string, args ...any) (int64, error) {
	result, err := q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// newID returns an id that sorts after those this process made before.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return id.String(), nil
}

// clock returns the present instant as precisely as the database keeps it.
func (s *Store) clock() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// instant scans Unix milliseconds into a time.
type instant struct{ dst *time.Time }

func (i instant) Scan(v any) error {
	ms, ok := v.(int64)
	if !ok {
		return fmt.Errorf("%T is not a time in milliseconds", v)
	}
	*i.dst = time.UnixMilli(ms).UTC()
	return nil
}

// optionalInstant scans Unix milliseconds or NULL, which is nil.
type optionalInstant struct{ dst **time.Time }

func (i optionalInstant) Scan(v any) error {
	*i.dst = nil
	if v == nil {
		return nil
	}
	*i.dst = new(time.Time)
	return instant{*i.dst}.Scan(v)
}

// optionalMillis is the stored form of a time that may be absent.
func optionalMillis(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UnixMilli()
}
