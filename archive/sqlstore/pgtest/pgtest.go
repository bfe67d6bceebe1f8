// Package pgtest starts a private PostgreSQL server for tests, with the programs that are installed on the machine. The server
// listens only on a socket in a temporary folder, and does not sync to disk. It sorts text by the rules of a language, so
// queries that wrongly rely on byte order fail. It is stopped and removed when the test that started it ends, and on Linux dies
// with the test process.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// startLimit bounds the creation and the start of the server.
const startLimit = time.Minute

// Server is a running PostgreSQL server. It is safe for concurrent use by several tests.
type Server struct {
	folder    string
	bin       string // the folder of PostgreSQL's programs
	databases atomic.Int64
}

// Start starts a server that runs until tb and its subtests end. It takes about a second, so the tests of a package share one server
// in a parent test. It skips the test with -short, and where PostgreSQL is not installed.
func Start(tb testing.TB) *Server {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starting PostgreSQL takes a second")
	}
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(programs) == 0 {
		tb.Skip("PostgreSQL is not installed: no /usr/lib/postgresql/*/bin/initdb")
	}
	owner, err := serverUser()
	if err != nil {
		tb.Skip(err)
	}
	s := &Server{folder: privateFolder(tb, owner), bin: filepath.Dir(programs[len(programs)-1])}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	data := filepath.Join(s.folder, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), "--pgdata="+data, "--username=sara", "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en-US", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = s.folder, owner
	if out, err := initdb.CombinedOutput(); err != nil {
		tb.Fatalf("create a PostgreSQL data folder: %v\n%s", err, out)
	}
	postgres := exec.Command(filepath.Join(s.bin, "postgres"), "-D", data, "-k", s.folder, "-c", "listen_addresses=",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "autovacuum=off", "-c", "max_connections=200")
	postgres.Dir, postgres.SysProcAttr = s.folder, owner
	run(ctx, tb, postgres, s.url())
	return s
}

// serverUser returns the process attributes of the server, which refuses to run as root.
func serverUser() (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return processAttributes(nil), nil
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and the user postgres is missing: %w", err)
	}
	uid, uidErr := strconv.ParseUint(postgres.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(postgres.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, fmt.Errorf("read the ids of the user of PostgreSQL: %w", err)
	}
	return processAttributes(&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}), nil
}

// privateFolder creates a folder that belongs to the server's user. tb.TempDir does not fit: a socket's path must be short,
// and the server's user must be able to enter every parent folder.
func privateFolder(tb testing.TB, owner *syscall.SysProcAttr) string {
	tb.Helper()
	folder, err := os.MkdirTemp(folderOfServers(), "pgtest")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			tb.Error(err)
		}
	})
	if owner.Credential != nil {
		if err := os.Chown(folder, int(owner.Credential.Uid), int(owner.Credential.Gid)); err != nil {
			tb.Fatal(err)
		}
	}
	return folder
}

// run starts a server, waits until it answers at a URL, and stops it when the test ends.
func run(ctx context.Context, tb testing.TB, server *exec.Cmd, url string) {
	tb.Helper()
	name := filepath.Base(server.Path)
	var log bytes.Buffer // read after the server has ended
	server.Stdout, server.Stderr = &log, &log
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		// The kernel kills the server when the thread that started it ends (Pdeathsig), so the thread is kept.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := server.Start()
		started <- err
		if err == nil {
			_ = server.Wait() // it was told to stop, so its status does not matter
		}
	}()
	if err := <-started; err != nil {
		tb.Fatalf("start %s: %v", name, err)
	}
	tb.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT) // fails only when it has ended already
		<-ended
	})
	if err := waitReady(ctx, url, ended); err != nil {
		_ = server.Process.Kill()
		<-ended
		tb.Fatalf("start %s: %v\n%s", name, err, &log)
	}
}

// waitReady polls until the server answers or ends, or ctx ends.
func waitReady(ctx context.Context, url string, ended <-chan struct{}) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := execAt(ctx, url, "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		}
	}
}

// NewDatabase returns the URL of an empty database. It is a schema, which takes a millisecond to create, while a real database
// takes twenty. These databases share the advisory locks of the server's first one.
func (s *Server) NewDatabase(tb testing.TB) string {
	tb.Helper()
	name := s.nextName()
	s.mustExec(tb, "CREATE SCHEMA "+name)
	return s.url() + "&search_path=" + name
}

// Template returns a function that returns the URLs of copies of a database that prepare has filled and closed again. They are real
// databases: a schema change in one would make all connections of the others discard their cached schema.
func (s *Server) Template(tb testing.TB, prepare func(url string)) (newDatabase func(testing.TB) string) {
	tb.Helper()
	const template = "template_of_databases"
	s.mustExec(tb, "CREATE DATABASE "+template)
	prepare(s.urlOf(template))
	return func(tb testing.TB) string {
		tb.Helper()
		name := s.nextName()
		s.mustExec(tb, "CREATE DATABASE "+name+" TEMPLATE "+template+" STRATEGY FILE_COPY")
		return s.urlOf(name)
	}
}

// Dump returns a backup of a database created by NewDatabase, in the custom format of pg_dump.
func (s *Server) Dump(tb testing.TB, database string) []byte {
	tb.Helper()
	return s.dump(tb, database, "custom")
}

// Text returns the whole content of a database created by NewDatabase, as SQL.
func (s *Server) Text(tb testing.TB, database string) string {
	tb.Helper()
	return string(s.dump(tb, database, "plain"))
}

func (s *Server) dump(tb testing.TB, database, format string) []byte {
	tb.Helper()
	dump, err := exec.Command(filepath.Join(s.bin, "pg_dump"), "--format="+format, "--schema="+schemaOf(tb, database), s.url()).Output()
	if err != nil {
		tb.Fatalf("dump %s: %v", database, err)
	}
	return dump
}

// Drop destroys a database created by NewDatabase.
func (s *Server) Drop(tb testing.TB, database string) {
	tb.Helper()
	s.mustExec(tb, "DROP SCHEMA "+schemaOf(tb, database)+" CASCADE")
}

// Restore restores a database that Drop has destroyed from a backup of Dump, with pg_restore.
func (s *Server) Restore(tb testing.TB, dump []byte) {
	tb.Helper()
	restore := exec.Command(filepath.Join(s.bin, "pg_restore"), "--exit-on-error", "--single-transaction", "--dbname="+s.url())
	restore.Stdin = bytes.NewReader(dump)
	if out, err := restore.CombinedOutput(); err != nil {
		tb.Fatalf("restore a database: %v\n%s", err, out)
	}
}

// schemaOf returns the schema that stands for a database.
func schemaOf(tb testing.TB, database string) string {
	tb.Helper()
	u, err := url.Parse(database)
	if err != nil {
		tb.Fatal(err)
	}
	return u.Query().Get("search_path")
}

func (s *Server) nextName() string { return fmt.Sprintf("test%d", s.databases.Add(1)) }

func (s *Server) url() string { return s.urlOf("postgres") }

func (s *Server) urlOf(database string) string {
	return "postgres:///" + database + "?host=" + s.folder + "&user=sara&sslmode=disable"
}

func (s *Server) mustExec(tb testing.TB, statements string) {
	tb.Helper()
	if err := execAt(context.Background(), s.url(), statements); err != nil {
		tb.Fatalf("create a database: %v", err)
	}
}

// execAt runs statements at a URL, in a form that poolers pass on.
func execAt(ctx context.Context, url, statements string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statements)
	return errors.Join(err, conn.Close(ctx))
}
