// Package pgtest starts a private PostgreSQL for tests. It uses the programs that are installed on the machine and
// skips the test when there are none. The server listens on a socket in a temporary folder and on no network address,
// does not sync to disk, and sorts text by the rules of a language, so that queries which rely on byte order are found
// out. It is stopped and removed when the test that started it ends, and dies with the test process on Linux.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// startLimit bounds how long making and starting the server may take.
const startLimit = time.Minute

// Server is a running PostgreSQL. Its methods may be called from several tests at once.
type Server struct {
	folder    string
	databases atomic.Int64
}

// Start starts a server that runs until tb and its subtests end. Starting takes about a second: a package with many
// tests starts one in a parent test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(programs) == 0 {
		tb.Skip("PostgreSQL is not installed: no /usr/lib/postgresql/*/bin/initdb")
	}
	owner, err := serverUser()
	if err != nil {
		tb.Skip(err)
	}
	s := &Server{folder: privateFolder(tb, owner)}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	bin, data := filepath.Dir(programs[len(programs)-1]), filepath.Join(s.folder, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata="+data, "--username=sara", "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en-US", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = s.folder, owner
	if out, err := initdb.CombinedOutput(); err != nil {
		tb.Fatalf("make a PostgreSQL data folder: %v\n%s", err, out)
	}
	postgres := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", s.folder, "-c", "listen_addresses=",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "max_connections=200")
	postgres.Dir, postgres.SysProcAttr = s.folder, owner
	s.run(ctx, tb, postgres)
	return s
}

// serverUser returns the attributes to run the server with. PostgreSQL refuses to run as root.
func serverUser() (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return processAttributes(nil), nil
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user for it: %w", err)
	}
	uid, uidErr := strconv.ParseUint(postgres.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(postgres.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, fmt.Errorf("read the ids of the user of PostgreSQL: %w", err)
	}
	return processAttributes(&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}), nil
}

// privateFolder makes a folder that belongs to the server. Its path is short, because that of a socket has to be, and
// every folder above it may be entered by the server's user, which does not hold for tb.TempDir.
func privateFolder(tb testing.TB, owner *syscall.SysProcAttr) string {
	tb.Helper()
	folder, err := os.MkdirTemp("", "pgtest")
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

// run starts the server, stops it when the test ends, and returns when it answers.
func (s *Server) run(ctx context.Context, tb testing.TB, postgres *exec.Cmd) {
	tb.Helper()
	var log bytes.Buffer // read only once the server has ended
	postgres.Stdout, postgres.Stderr = &log, &log
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		// The kernel ends the server with the thread that started it, so that thread stays until the server has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := postgres.Start()
		started <- err
		if err == nil {
			_ = postgres.Wait() // it was told to stop: how it says so does not matter
		}
	}()
	if err := <-started; err != nil {
		tb.Fatalf("start PostgreSQL: %v", err)
	}
	tb.Cleanup(func() {
		_ = postgres.Process.Signal(syscall.SIGINT) // fails only when it has ended already
		<-ended
	})
	if err := s.waitReady(ctx, ended); err != nil {
		_ = postgres.Process.Kill()
		<-ended
		tb.Fatalf("start PostgreSQL: %v\n%s", err, &log)
	}
}

// waitReady asks until the server answers, has ended, or ctx is over.
func (s *Server) waitReady(ctx context.Context, ended <-chan struct{}) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.exec(ctx, "SELECT 1")
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

// NewDatabase returns the URL of an empty database. It is a schema of its own rather than a whole database, which takes
// a millisecond to make instead of a quarter of a second; advisory locks are shared with the server's other databases.
func (s *Server) NewDatabase(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	if err := s.exec(context.Background(), "CREATE SCHEMA "+name); err != nil {
		tb.Fatalf("make database %s: %v", name, err)
	}
	return s.url() + "&search_path=" + name
}

func (s *Server) url() string {
	return "postgres:///postgres?host=" + s.folder + "&user=sara&sslmode=disable"
}

func (s *Server) exec(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, s.url())
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}
