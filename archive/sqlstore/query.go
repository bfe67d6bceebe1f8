package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Timeouts of a read query outside a transaction, of a write transaction including waits for locks, and of an operation on all URLs of
// a property.
const (
	readLimit  = 5 * time.Second
	writeLimit = 15 * time.Second
	bulkLimit  = 2 * time.Minute
)

// querier is the common part of a database and a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// scanner is one row of a result.
type scanner interface {
	Scan(dest ...any) error
}

// joined scans the last columns of a row into rest.
type joined struct {
	scanner
	rest []any
}

func (j joined) Scan(dest ...any) error { return j.scanner.Scan(append(dest, j.rest...)...) }

// all returns every row of the result; an empty slice if there is none. A query outside a transaction ends after readLimit, and a read whose
// connection is lost is made again, once. The arguments are those of $1, $2 and so on, or named.
func all[T any](ctx context.Context, q querier, scan func(scanner, *T) error, query string, args ...any) ([]T, error) {
	if tx, ok := q.(*sql.Tx); ok {
		return collect(ctx, tx, scan, query, args...)
	}
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	leave, err := enter(ctx, q)
	if err != nil {
		return nil, err
	}
	defer leave()
	values, err := collect(ctx, q, scan, query, args...)
	if l, ok := q.(lane); ok && l.losses.note(err) && l.reads {
		return collect(ctx, q, scan, query, args...)
	}
	return values, err
}

// collect makes a query once.
func collect[T any](ctx context.Context, q querier, scan func(scanner, *T) error, query string, args ...any) ([]T, error) {
	query, args = bindNamed(query, args)
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	values := []T{}
	for rows.Next() && err == nil {
		values = append(values, *new(T))
		err = scan(rows, &values[len(values)-1])
	}
	if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	return values, nil
}

// one returns the first row of the result, or sql.ErrNoRows.
func one[T any](ctx context.Context, q querier, scan func(scanner, *T) error, query string, args ...any) (T, error) {
	var zero T
	values, err := all(ctx, q, scan, query, args...)
	if err != nil {
		return zero, err
	}
	if len(values) == 0 {
		return zero, sql.ErrNoRows
	}
	return values[0], nil
}

// find is one for a row that must exist: without it, the error is missing.
func find[T any](ctx context.Context, q querier, scan func(scanner, *T) error, missing *NotFoundError, query string, args ...any) (T, error) {
	v, err := one(ctx, q, scan, query, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return v, missing
	}
	if err != nil {
		err = fmt.Errorf("find %s %q: %w", missing.Kind, missing.Reference, err)
	}
	return v, err
}

// scalar scans a row of one column.
func scalar[T any](row scanner, v *T) error { return row.Scan(v) }

// write is transact for an administrative change: it also records the change in the audit log, advances the Edition and the Generation,
// and removes old entries of the log.
func (s *Store) write(ctx context.Context, do func(ctx context.Context, tx *sql.Tx) (change, error)) error {
	return s.writeWithin(ctx, writeLimit, do)
}

// writeWithin is write with another timeout, which each attempt has: after a collision with another transaction, do is called again.
func (s *Store) writeWithin(ctx context.Context, limit time.Duration, do func(ctx context.Context, tx *sql.Tx) (change, error)) (err error) {
	const attempts = 3
	for range attempts {
		if err = s.writeOnce(ctx, limit, do); !isCollision(err) {
			break
		}
	}
	return err
}

func (s *Store) writeOnce(ctx context.Context, limit time.Duration, do func(ctx context.Context, tx *sql.Tx) (change, error)) error {
	done := false
	err := transactWithin(ctx, s.changes, limit, nil, func(ctx context.Context, tx *sql.Tx) error {
		c, err := do(ctx, tx)
		if err != nil {
			return err
		}
		if err := s.record(ctx, tx, c); err != nil {
			return err
		}
		if err := nextEdition(ctx, tx); err != nil {
			return err
		}
		err = s.removeOldEntries(ctx, tx) // whose rows only the holder of the edition locks
		done = err == nil
		return err
	})
	if done { // whether the commit failed or only its reply was lost
		s.generation.Add(1)
	}
	return err
}

// nextEdition advances the Edition in the transaction of the change. Must be last, but for rows that only its holder locks: it locks the
// one edition row, so this order cannot deadlock.
func nextEdition(ctx context.Context, tx *sql.Tx) (err error) {
	defer wrap(&err, "advance the edition")
	_, err = tx.ExecContext(ctx, "UPDATE edition SET changes = changes + 1")
	return err
}

// execute runs a statement that changes nothing that is cached or audited.
func (s *Store) execute(ctx context.Context, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	_, err := s.changes.ExecContext(ctx, query, args...)
	return err
}

// transact runs do in one transaction, and commits it if do succeeds. On SQLite the transaction holds the database's write lock
// from its start. All queries of do must go through tx.
func (s *Store) transact(ctx context.Context, do func(ctx context.Context, tx *sql.Tx) error) error {
	return transactWithin(ctx, s.changes, writeLimit, nil, do)
}

// snapshot runs do in a read-only transaction with snapshot isolation (repeatable read): all its queries see the same state of
// the database. It takes no locks.
func snapshot(ctx context.Context, l lane, limit time.Duration, do func(ctx context.Context, tx *sql.Tx) error) error {
	return transactWithin(ctx, l, limit, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}, do)
}

func transactWithin(ctx context.Context, l lane, limit time.Duration, options *sql.TxOptions,
	do func(ctx context.Context, tx *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	tx, err := l.BeginTx(ctx, options)
	if l.losses.note(err) {
		tx, err = l.BeginTx(ctx, options) // nothing has been done
	}
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	if err := do(ctx, tx); err != nil {
		if rollbackErr := tx.Rollback(); rollbackErr != nil && !errors.Is(rollbackErr, sql.ErrTxDone) {
			return errors.Join(err, rollbackErr)
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// insert runs a statement that adds a row; if a unique index refuses it, the error is exists.
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

// newID returns an ID (UUIDv7) that sorts after the previous ones of this process.
func newID() string {
	return uuid.Must(uuid.NewV7()).String() // crypto/rand never fails
}

// clock returns the current time in the database's precision.
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

// optionalInstant scans Unix milliseconds, or NULL as nil.
type optionalInstant struct{ dst **time.Time }

func (i optionalInstant) Scan(v any) error {
	*i.dst = nil
	if v == nil {
		return nil
	}
	*i.dst = new(time.Time)
	return instant{*i.dst}.Scan(v)
}

// optionalMillis is the stored form of an optional time.
func optionalMillis(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UnixMilli()
}
