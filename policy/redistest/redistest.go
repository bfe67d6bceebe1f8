// Package redistest runs real Redis servers for tests: private ones on free ports of this machine, which end with the test
// and, when its process dies, with that. A test that starts one is skipped where redis-server is not installed. What goes
// wrong fails the test. A Server is for one goroutine at a time, but its addresses may be read by any.
package redistest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience is how long anything here may take on a machine that does a lot else.
const patience = 20 * time.Second

// A Server is one Redis, or a sentinel of one.
type Server struct {
	tb        testing.TB
	dir, port string
	arguments []string

	shell *exec.Cmd
	alive io.Closer // the shell ends the server when this is closed
	pid   int
}

// Single starts a Redis with further directives of its configuration, such as "--requirepass", "secret".
func Single(tb testing.TB, directives ...string) *Server {
	tb.Helper()
	s := server(tb, directives...)
	s.Start()
	s.await("PONG", "ping")
	return s
}

// server prepares a server that is stopped at the end of the test.
func server(tb testing.TB, directives ...string) *Server {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		tb.Skip("redis-server is not installed")
	}
	s := &Server{tb: tb, dir: tb.TempDir(), port: freePort(tb)}
	s.arguments = append([]string{"--bind", "127.0.0.1", "--port", s.port, "--dir", s.dir, "--save", "", "--appendonly", "no"}, directives...)
	tb.Cleanup(s.end)
	return s
}

func freePort(tb testing.TB) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("find a free port: %v", err)
	}
	defer func() { _ = listener.Close() }()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// Addr returns the host and the port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", s.port) }

// URL returns the address as policy.OpenRedis takes it.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Start starts the server again, on its port, after Stop or Kill.
func (s *Server) Start() {
	s.tb.Helper()
	// The shell tells the pid and lives as long as the pipe to it, which closes with this process however it ends.
	const guard = `"$@" >redis.log 2>&1 & echo $!; cat >/dev/null; kill -9 $!; wait`
	shell := exec.Command("sh", append([]string{"-c", guard, "sh", "redis-server"}, s.arguments...)...)
	shell.Dir = s.dir
	alive, err := shell.StdinPipe()
	if err != nil {
		s.tb.Fatalf("start redis-server: %v", err)
	}
	output, err := shell.StdoutPipe()
	if err != nil {
		s.tb.Fatalf("start redis-server: %v", err)
	}
	if err := shell.Start(); err != nil {
		s.tb.Fatalf("start redis-server: %v", err)
	}
	s.shell, s.alive = shell, alive
	line, err := bufio.NewReader(output).ReadString('\n')
	if err == nil {
		s.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		s.tb.Fatalf("read the pid of redis-server: %v", err)
	}
	s.poll("answer", func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr())
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// Stop ends the server in order, after it has saved its data for the next Start.
func (s *Server) Stop() {
	s.tb.Helper()
	client := s.control()
	err := client.Save(s.tb.Context()).Err()
	_ = client.Close()
	if err != nil {
		s.tb.Fatalf("save the data of redis-server: %v", err)
	}
	s.end()
}

// Kill ends the server at once. Its data are gone.
func (s *Server) Kill() {
	s.tb.Helper()
	s.end()
	if err := os.Remove(filepath.Join(s.dir, "dump.rdb")); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.tb.Fatalf("remove the data of redis-server: %v", err)
	}
}

func (s *Server) end() {
	if s.shell == nil {
		return
	}
	_ = s.alive.Close()
	_ = s.shell.Wait() // the status says that it was killed, if anything
	s.shell = nil
}

// Freeze stops the server from doing anything, without closing its connections, until Thaw.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) {
	s.tb.Helper()
	if err := syscall.Kill(s.pid, signal); err != nil {
		s.tb.Fatalf("send %v to redis-server: %v", signal, err)
	}
}

// Client returns a client for looking into the server, which waits patiently; it is closed at the end of the test.
func (s *Server) Client() *redis.Client {
	client := s.control()
	s.tb.Cleanup(func() { _ = client.Close() })
	return client
}

func (s *Server) control() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr(), Password: s.directive("--requirepass"), ReadTimeout: patience,
		MaxRetries: -1, DialerRetries: 1})
}

func (s *Server) directive(name string) string {
	for i, argument := range s.arguments {
		if argument == name {
			return s.arguments[i+1]
		}
	}
	return ""
}

// await asks the server something until the answer contains what is wanted.
func (s *Server) await(want string, question ...any) {
	s.tb.Helper()
	client := s.control()
	defer func() { _ = client.Close() }()
	s.poll(want, func(ctx context.Context) error {
		text, err := client.Do(ctx, question...).Text()
		if err == nil && !strings.Contains(text, want) {
			err = errors.New(text)
		}
		return err
	})
}

func (s *Server) poll(what string, try func(context.Context) error) {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(s.dir, "redis.log"))
			s.tb.Fatalf("wait for redis-server to %s: %v\n%s", what, err, log)
		}
	}
}
