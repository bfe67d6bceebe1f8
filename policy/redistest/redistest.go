// Package redistest runs real Redis servers for tests, on free ports of the loopback interface. A server stops at the end of
// its test, or when the test process dies. Without redis-server in PATH, the test is skipped; any other problem fails it. The
// methods of a Server must not be called concurrently, except Addr and URL.
package redistest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sara/policy/redisconn"
)

// patience bounds every wait here, generously for a busy machine.
const patience = 20 * time.Second

// A Server is a Redis server or a sentinel.
type Server struct {
	tb        testing.TB
	dir, port string
	arguments []string

	shell *exec.Cmd
	alive io.Closer // closing it makes the shell kill the server
	pid   int
}

// Single starts a standalone server. The directives extend its configuration, for example "--requirepass", "secret".
func Single(tb testing.TB, directives ...string) *Server {
	tb.Helper()
	s := server(tb, directives...)
	s.Start()
	s.await("PONG", "ping")
	return s
}

// server prepares a server, and its end with the test, without starting it.
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
	// Below the ports that the kernel gives to connections: between here and the start of the server, one of those could be taken.
	const first, end, attempts = 10_000, 32_000, 100
	var err error
	for range attempts {
		port := strconv.Itoa(first + rand.N(end-first))
		var listener net.Listener
		if listener, err = net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = listener.Close()
			return port
		}
	}
	tb.Fatalf("find a free port: %v", err)
	return ""
}

// Addr returns the host and the port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", s.port) }

// URL returns the server's URL for redisconn.Open.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Start starts the server again after Stop or Kill, on the same port.
func (s *Server) Start() {
	s.tb.Helper()
	// The shell prints the pid and lives until its stdin is closed, which happens however this process ends.
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

// Stop saves the data for the next Start and ends the server.
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

// Kill ends the server and deletes its data.
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
	_ = s.shell.Wait() // the shell's status is of no interest
	s.shell = nil
}

// Freeze suspends the server until Thaw. Its connections stay open.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw resumes a frozen server.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) {
	s.tb.Helper()
	if err := syscall.Kill(s.pid, signal); err != nil {
		s.tb.Fatalf("send %v to redis-server: %v", signal, err)
	}
}

// Client returns a client to inspect the server with, as Open does.
func (s *Server) Client() redisconn.Client {
	s.tb.Helper()
	client := s.control()
	s.tb.Cleanup(func() { _ = client.Close() })
	return client
}

func (s *Server) control() redisconn.Client {
	s.tb.Helper()
	address := url.URL{Scheme: "redis", Host: s.Addr(), User: url.UserPassword("", s.directive("--requirepass"))}
	return open(s.tb, address.String())
}

// Open returns a client of a URL, whose long timeouts suffice on a busy machine. It is closed at the end of the test.
func Open(tb testing.TB, address string) redisconn.Client {
	tb.Helper()
	client := open(tb, address)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

func open(tb testing.TB, address string) redisconn.Client {
	tb.Helper()
	client, err := redisconn.Open(address, patience)
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

func (s *Server) directive(name string) string {
	for i, argument := range s.arguments {
		if argument == name {
			return s.arguments[i+1]
		}
	}
	return ""
}

// await repeats a command until the reply contains want.
func (s *Server) await(want string, command ...any) {
	s.tb.Helper()
	client := s.control()
	defer func() { _ = client.Close() }()
	s.poll(want, func(ctx context.Context) error {
		text, err := client.Do(ctx, command...).Text()
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
