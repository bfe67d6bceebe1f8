package sqlstore

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// dialect is the kind of a Store's database, under the name shown to users.
type dialect string

const (
	sqliteDialect   dialect = "SQLite"
	postgresDialect dialect = "PostgreSQL"
)

const idleConnLifetime = 5 * time.Minute

// openSQLite opens pools on a file. SQLite serializes its writers; its readers do not wait for them.
func openSQLite(path string, c Config) (p pools, err error) {
	if path == "" {
		return p, &InputError{"database URL", "sqlite: must be followed by a path"}
	}
	// A transaction takes the write lock when it begins (immediate), so it waits for the lock instead of failing halfway.
	options := "?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_pragma=journal_mode(WAL)" +
		"&_pragma=recursive_triggers(1)" + // the audit log can refuse the deletions of REPLACE only if they fire triggers
		"&_pragma=synchronous(NORMAL)&_pragma=mmap_size(268435456)" // mmap: index walks copy no pages
	if path == ":memory:" {
		db, err := sql.Open("sqlite", "file::memory:"+options)
		if err != nil {
			return p, fmt.Errorf("open a database in memory: %w", err)
		}
		db.SetMaxOpenConns(1) // each connection would have its own database
		return onePool(db), nil
	}
	if err := createPrivate(path); err != nil {
		return p, fmt.Errorf("open database file %s: %w", path, err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return p, fmt.Errorf("open database file: %w", err)
	}
	p, err = openPools(func(most int) (*sql.DB, error) {
		db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+options)
		if err != nil {
			return nil, fmt.Errorf("open database file %s: %w", path, err)
		}
		db.SetMaxOpenConns(most)
		db.SetMaxIdleConns(most)
		return db, nil
	}, cmp.Or(c.Connections, DefaultConnections), c.Command)
	p.parses = true
	return p, err
}

// createPrivate creates an empty file that only its owner can read, and its folder, unless they exist. SQLite gives its side files
// the same mode. An existing file must not even be opened: closing it would release the POSIX locks that SQLite holds on it in
// this process.
func createPrivate(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// openPostgres opens pools that also work through a pooler in transaction mode, such as PgBouncer. There, a transaction may run in
// another session than the one before it, so session state is lost or leaks to others. So statements are described once and kept
// unnamed, and no lock belongs to a session.
func openPostgres(c Config) (p pools, session string, err error) {
	config, err := pgx.ParseConfig(c.URL)
	if err != nil {
		// The parser's message may contain a part of a badly escaped password.
		return p, "", &InputError{"database URL", "it must be postgres://USER:PASSWORD@HOST:PORT/DATABASE, " +
			"with special characters of the password percent-encoded (it is not shown here because it may contain a password)"}
	}
	wanted, err := takePoolParameters(config.RuntimeParams)
	if err != nil {
		return p, "", err
	}
	session = sessionName(config.RuntimeParams)
	config.RuntimeParams[applicationName] = session
	if config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement { // the library's default
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	lost := new(losses)
	p, err = openPools(func(most int) (*sql.DB, error) {
		db := stdlib.OpenDB(*config, stdlib.OptionShouldPing(lost.mustPing))
		db.SetMaxOpenConns(most)
		db.SetMaxIdleConns(most)
		db.SetConnMaxIdleTime(idleConnLifetime)
		return db, nil
	}, cmp.Or(c.Connections, wanted, DefaultConnections), c.Command)
	p.losses = lost
	return p, session, err
}

// takePoolParameters removes the parameters of pgx's own pool, which the server would refuse, and returns pool_max_conns, or 0 if it
// is absent.
func takePoolParameters(parameters map[string]string) (connections int, err error) {
	for name, value := range parameters {
		switch {
		case !strings.HasPrefix(name, "pool_"):
			continue
		case name != "pool_max_conns":
			return 0, &InputError{"database URL", "it has the parameter " + name +
				", which sara does not support: remove it, and set the number of connections with SARA_DATABASE_CONNECTIONS"}
		}
		connections, err = strconv.Atoi(value)
		if err != nil || connections < MinConnections || connections > MaxConnections {
			return 0, &InputError{"database URL",
				fmt.Sprintf("pool_max_conns=%.20q is not a number from %d to %d: correct it, or remove it and set SARA_DATABASE_CONNECTIONS",
					value, MinConnections, MaxConnections)}
		}
		delete(parameters, name)
	}
	return connections, nil
}

// isUniqueViolation reports whether a unique index refused a row.
func isUniqueViolation(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "23505"
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return lite.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || lite.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	return false
}

// isCollision reports whether a transaction failed because of a concurrent one, so that it may succeed when repeated: the two were in a
// deadlock, or one added a row that refers to a row that the other one deleted.
func isCollision(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "40P01" || isForeignKeyViolation(pg))
}

// isForeignKeyViolation reports whether a row refers to one that does not exist, such as a property that was removed meanwhile.
func isForeignKeyViolation(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "23503"
	}
	lite, ok := errors.AsType[*sqlite.Error](err)
	return ok && lite.Code() == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
}

// IsReadOnly reports whether SQLite refused to write, because its file or the folder is read-only for this process.
func IsReadOnly(err error) bool {
	const primary = 0xff // an extended code has more in its other bits
	lite, ok := errors.AsType[*sqlite.Error](err)
	return ok && lite.Code()&primary == sqlite3.SQLITE_READONLY
}

// isUnknownTable reports whether a table of the query does not exist.
func isUnknownTable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "42P01"
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return lite.Code() == sqlite3.SQLITE_ERROR && strings.Contains(lite.Error(), "no such table")
	}
	return false
}
