package sqlstore

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// IsEmpty reports whether the database has no schema yet, or no account.
func (s *Store) IsEmpty(ctx context.Context) (bool, error) {
	accounts, err := one(ctx, s.overview, scalar[int], "SELECT count(*) FROM accounts")
	if isUnknownTable(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("count the accounts: %w", err)
	}
	return accounts == 0, nil
}

// Load replaces everything in the database with the rows of a dump of a schema version, and then migrates it. No server may use the
// database meanwhile (OtherProcesses, FileInUse): it would find the tables missing, and then empty. If Load fails, the database is
// unchanged, or empty, or has a schema but no rows, and Load can be called again. A database whose schema is of a newer program is not
// changed.
//
// The audit log is replaced, too. The load is its newest entry.
func (s *Store) Load(ctx context.Context, dump io.Reader, schema int64) error {
	if err := s.load(ctx, dump, schema); err != nil {
		return fmt.Errorf("load the %s database: %w", s.dialect, err)
	}
	_, err := s.Migrate(ctx)
	return err
}

func (s *Store) load(ctx context.Context, dump io.Reader, schema int64) error {
	provider, err := s.migrator()
	if err != nil {
		return err
	}
	current, known, err := s.SchemaVersion(ctx)
	switch {
	case err != nil:
		return err
	case schema > known:
		return fmt.Errorf("the dump has schema version %d, but this program knows only up to %d: use the version of sara that wrote it", schema, known)
	case current > known:
		return fmt.Errorf("the database has schema version %d, but this program, which knows versions only up to %d, cannot drop its tables: "+
			"restore into an empty database", current, known)
	}
	// Servers must not mistake the loaded database for the old one. The clock is ahead of any count of changes, even if an earlier
	// attempt dropped the count.
	edition := s.now().UnixMilli()
	if current > 0 {
		before, _ := one(ctx, s.overview, scalar[int64], "SELECT changes FROM edition") // 0 if the schema is older than editions
		edition = max(edition, before)
		if err := s.dropTables(ctx); err != nil {
			return fmt.Errorf("drop the tables: %w", err)
		}
	}
	if _, err := provider.UpTo(ctx, schema); err != nil {
		return fmt.Errorf("create the tables of schema version %d: %w", schema, err)
	}
	return transactWithin(ctx, s.changes, backupLimit, nil, func(ctx context.Context, tx *sql.Tx) error {
		l := loader{tx: tx}
		if err := l.rows(ctx, dump); err != nil {
			return err
		}
		if err := s.record(ctx, tx, change{action: "database.restore", details: details{"schema": schema}}); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE edition SET changes = CASE WHEN changes > $1 THEN changes ELSE $1 END + 1", edition)
		return err
	})
}

// dropTables drops everything that migrations have made. It is one transaction, unlike migrating down: that would leave a part of the data
// if it ended early, such as keys without the addresses that they are restricted to.
func (s *Store) dropTables(ctx context.Context) error {
	return transactWithin(ctx, s.changes, backupLimit, nil, func(ctx context.Context, tx *sql.Tx) error {
		for _, table := range slices.Backward(append(dumpedTables(), tablesLeftOut()...)) {
			if _, err := tx.ExecContext(ctx, "DROP TABLE IF EXISTS "+table); err != nil {
				return err
			}
		}
		if s.dialect != postgresDialect {
			return nil
		}
		_, err := tx.ExecContext(ctx, "DROP FUNCTION IF EXISTS refuse_audit_log_change")
		return err
	})
}

// A loader inserts the rows of a dump, in batches.
type loader struct {
	tx    *sql.Tx
	table dumpedTable
	batch [][]any // rows not inserted yet, at most maxBatch
}

func (l *loader) rows(ctx context.Context, dump io.Reader) error {
	lines := bufio.NewScanner(dump)
	lines.Buffer(make([]byte, 0, 64<<10), longestDumpLine)
	for number := 1; lines.Scan(); number++ {
		if err := l.line(ctx, lines.Bytes()); err != nil {
			return fmt.Errorf("line %d of the dump: %w", number, err)
		}
	}
	return errors.Join(lines.Err(), l.flush(ctx))
}

func (l *loader) line(ctx context.Context, line []byte) error {
	if len(line) > 0 && line[0] == '{' {
		if err := l.flush(ctx); err != nil {
			return err
		}
		return l.begin(ctx, line)
	}
	decoder := json.NewDecoder(strings.NewReader(string(line)))
	decoder.UseNumber()
	var values []any
	if err := decoder.Decode(&values); err != nil {
		return err
	}
	if len(values) != len(l.table.Columns) {
		return fmt.Errorf("it has %d values, not %d", len(values), len(l.table.Columns))
	}
	for i, value := range values {
		loaded, err := loadValue(l.table.Kinds[i], value)
		if err != nil {
			return fmt.Errorf("column %s: %w", l.table.Columns[i], err)
		}
		values[i] = loaded
	}
	if l.batch = append(l.batch, values); len(l.batch) == maxBatch {
		return l.flush(ctx)
	}
	return nil
}

// begin starts a table. Its names become parts of statements, so they must be those of the schema. Rows that the schema itself
// inserts are in the dump too, so the table is emptied first.
func (l *loader) begin(ctx context.Context, line []byte) error {
	l.table = dumpedTable{}
	if err := json.Unmarshal(line, &l.table); err != nil {
		return err
	}
	if !slices.Contains(dumpedTables(), l.table.Table) {
		return fmt.Errorf("there is no table %.40q", l.table.Table)
	}
	rows, err := l.tx.QueryContext(ctx, "SELECT * FROM "+l.table.Table+" WHERE FALSE")
	if err != nil {
		return err
	}
	known, err := describe(l.table.Table, rows)
	if err = errors.Join(err, rows.Close()); err != nil {
		return err
	}
	for i, column := range l.table.Columns {
		if at := slices.Index(known.Columns, column); at < 0 || len(l.table.Kinds) <= i || known.Kinds[at] != l.table.Kinds[i] {
			return fmt.Errorf("table %s has no such column %.40q", l.table.Table, column)
		}
	}
	_, err = l.tx.ExecContext(ctx, "DELETE FROM "+l.table.Table)
	return err
}

func (l *loader) flush(ctx context.Context) (err error) {
	defer wrap(&err, "insert into %s", l.table.Table)
	err = eachBatch(l.batch, func(values string, args []any) error {
		_, err := l.tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES %s", l.table.Table, strings.Join(l.table.Columns, ", "), values), args...)
		return err
	})
	l.batch = l.batch[:0]
	return err
}

// loadValue is the inverse of dumpValue.
func loadValue(kind string, value any) (any, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case bool:
		if kind == "boolean" {
			return v, nil
		}
	case json.Number:
		if kind == "integer" {
			return v.Int64()
		}
	case string:
		if kind == "text" {
			return v, nil
		}
		if kind == "bytes" {
			return base64.StdEncoding.DecodeString(v)
		}
	}
	return nil, fmt.Errorf("a value of type %T is not of kind %s", value, kind)
}
