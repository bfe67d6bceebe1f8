package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/settings"
	"sara/policy"
)

// Notices report what opening the database does that the person who started the process may not expect. A nil function reports nothing.
type Notices struct {
	Created func(path string)          // a new, empty database: the command may have been meant for another one
	Waits   func(atMost time.Duration) // for another process's migration
}

// ConnectDatabase opens the database for a command without changing its schema. The caller closes it.
func ConnectDatabase(ctx context.Context, s settings.Store, n Notices) (*sqlstore.Store, error) {
	return connect(ctx, s, n, true)
}

func connect(ctx context.Context, s settings.Store, n Notices, forCommand bool) (*sqlstore.Store, error) {
	created := MissingFile(s.DatabaseURL)
	config, err := databaseConfig(s, n)
	if err != nil {
		return nil, err
	}
	config.Command = forCommand
	store, err := sqlstore.Open(ctx, config)
	if err != nil {
		return nil, databaseError(s.DatabaseURL, err)
	}
	if created != "" && n.Created != nil {
		n.Created(created)
	}
	return store, nil
}

// databaseConfig returns the configuration of a store by the settings.
func databaseConfig(s settings.Store, n Notices) (sqlstore.Config, error) {
	keys, err := s.Keyring()
	return sqlstore.Config{URL: s.DatabaseURL.URL(), Keyring: keys, Connections: s.DatabaseConnections.N, Actor: actor(),
		OnMigrationWait: n.Waits, AuditRetention: time.Duration(s.AuditDays.N) * 24 * time.Hour, Now: s.ClockOffset.Shift(time.Now)}, err
}

// OpenDatabaseLater returns a database that does not answer now. It can be used once Migrate has succeeded. The caller closes it.
func OpenDatabaseLater(s settings.Store, n Notices) (*sqlstore.Store, error) {
	config, err := databaseConfig(s, n)
	if err != nil {
		return nil, err
	}
	store, err := sqlstore.New(config)
	if err != nil {
		return nil, databaseError(s.DatabaseURL, err)
	}
	return store, nil
}

// actor names the system user that runs the program, for the audit log.
func actor() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "cli:" + u.Username
	}
	return "cli:" + strconv.Itoa(os.Getuid())
}

// ServeDatabase opens a database for a server, and migrates its schema. It creates a file that does not exist, and refuses one that cannot
// be written. The caller closes the database.
func ServeDatabase(ctx context.Context, s settings.Store, n Notices) (*sqlstore.Store, error) {
	if err := requireWritable(s.DatabaseURL); err != nil {
		return nil, err
	}
	return connectMigrated(ctx, s, n, false)
}

// inMemory is the file name of a SQLite database in memory.
const inMemory = ":memory:"

// MissingFile returns the absolute path of the database's file if it does not exist yet, and else nothing.
func MissingFile(location settings.Database) string {
	if location.File == "" || location.File == inMemory {
		return ""
	}
	if _, err := os.Stat(location.File); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	path, err := filepath.Abs(location.File)
	if err != nil {
		return location.File
	}
	return path
}

// requireFile returns an error if the database is a file that does not exist.
func requireFile(location settings.Database) error {
	if path := MissingFile(location); path != "" {
		return settings.Errorf("SARA_DATABASE_URL", "there is no database at %s: run the command in the folder of the server, or name its database; "+
			"to begin a new one, run sara account add, sara migrate or sara serve", path)
	}
	return nil
}

// requireWritable returns an error if the database is a file that exists and cannot be written: a server would answer, but save neither what
// it has counted nor the collected history.
func requireWritable(location settings.Database) error {
	if location.File == "" || location.File == inMemory || MissingFile(location) != "" {
		return nil
	}
	if err := sqlstore.CheckWritable(location.File); err != nil {
		return databaseError(location, err)
	}
	return nil
}

func connectMigrated(ctx context.Context, s settings.Store, n Notices, forCommand bool) (*sqlstore.Store, error) {
	store, err := connect(ctx, s, n, forCommand)
	if err != nil {
		return nil, err
	}
	if _, err := Migrate(ctx, s, store); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// Migrate migrates the schema, and returns how many steps that took.
func Migrate(ctx context.Context, s settings.Store, store *sqlstore.Store) (steps int, err error) {
	if steps, err = store.Migrate(ctx); err != nil {
		return steps, databaseError(s.DatabaseURL, err)
	}
	return steps, nil
}

// OpenDatabaseReadOnly opens a database that exists, and neither creates nor migrates it. The caller closes it.
func OpenDatabaseReadOnly(ctx context.Context, s settings.Store) (*sqlstore.Store, error) {
	if err := requireFile(s.DatabaseURL); err != nil {
		return nil, err
	}
	return ConnectDatabase(ctx, s, Notices{})
}

// WithDatabase runs do with an open database that exists, and whose schema it migrates. It creates no file: a command in another folder
// than the server's would continue with an empty database. If do changes something that servers cache, they are notified.
func WithDatabase(ctx context.Context, s settings.Store, n Notices, do func(*sqlstore.Store) error) error {
	if err := requireFile(s.DatabaseURL); err != nil {
		return err
	}
	return WithNewDatabase(ctx, s, n, do)
}

// WithNewDatabase is WithDatabase for a command that a deployment begins with: it creates a file that does not exist.
func WithNewDatabase(ctx context.Context, s settings.Store, n Notices, do func(*sqlstore.Store) error) error {
	store, err := connectMigrated(ctx, s, n, true)
	if err != nil {
		return err
	}
	before := store.Generation()
	if err = do(store); sqlstore.IsReadOnly(err) {
		err = databaseError(s.DatabaseURL, err)
	}
	if store.Generation() != before {
		err = errors.Join(err, publishInvalidation(ctx, s.RedisURL))
	}
	if closed := store.Close(); err == nil && closed != nil {
		return fmt.Errorf("close the database: %w", closed)
	}
	return err
}

// publishInvalidation notifies the servers of a change. Without it, such as when Redis is down, they find it in the database
// within a second.
func publishInvalidation(ctx context.Context, r settings.Redis) error {
	client, err := OpenRedis(r)
	if client == nil || err != nil {
		return err
	}
	_ = policy.PublishInvalidation(ctx, client)
	return client.Close()
}

// databaseError returns an UnavailableError if the database does not answer, another error if it refuses. An interruption is no fault of it.
func databaseError(location settings.Database, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	named := settings.Errorf("SARA_DATABASE_URL", "%v: %s%s", location, OneLine(err), databaseFix(err))
	if isAway(err) {
		return &UnavailableError{named}
	}
	return named
}

// isAway reports whether nothing answers, or a server that is starting, stopping, full, or a pooler without its server: waiting may
// fix that.
func isAway(err error) bool {
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch class := refusal.Code[:min(2, len(refusal.Code))]; class {
		case "08", "53", "57": // connection exception, insufficient resources, operator intervention
			return true
		}
		return false
	}
	return isNetwork(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// databaseFix says what to do about an error of the database.
func databaseFix(err error) string {
	const form = "postgres://USER:PASSWORD@HOST:5432/DATABASE"
	refusal, _ := errors.AsType[*pgconn.PgError](err)
	switch text := err.Error(); {
	case errors.As(err, new(*sqlstore.SchemaError)), errors.As(err, new(*sqlstore.InputError)):
		return "" // their texts name the fix
	case refusal != nil && refusal.Code == "28P01":
		return "; it rejects this user or password: write " + form + ", with special characters percent-encoded"
	case refusal != nil && refusal.Code == "28000":
		return "; it rejects this user from this host, or without TLS: see pg_hba.conf, or add ?sslmode=require"
	case refusal != nil && refusal.Code == "3D000":
		return "; create the database with CREATE DATABASE, or name another: " + form
	case refusal != nil && refusal.Code == "42501":
		return "; let its user create tables in the schema public, or name another user: " + form
	case strings.Contains(text, "refused TLS"):
		return "; it does not support TLS: add ?sslmode=disable"
	case strings.Contains(text, "file is not a database"):
		return "; it is a file of another kind: name another one, such as sqlite:sara-data/sara.db"
	// What SQLite makes of a file of another user, and of a read-only disk.
	case strings.Contains(text, "unable to open database file"), sqlstore.IsReadOnly(err):
		return "; this user must be able to read and write the file and its folder: " +
			"run the command as the user of the server, such as with sara-admin, or name another file"
	case isDisk(err), strings.Contains(text, "disk I/O error"), strings.Contains(text, "disk is full"): // SQLite makes an I/O error of most errors
		return "; check that its disk has free space (df), and no errors"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return "; let this user write there, or name another file, such as sqlite:sara-data/sara.db"
	case errors.As(err, new(*pgconn.ConnectError)), isNetwork(err):
		return "; check that PostgreSQL runs, and that this machine reaches it at an address like " + form
	}
	return ""
}
