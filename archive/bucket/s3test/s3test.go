// Package s3test runs a real S3 store for tests: versitygw over a temporary folder, on a free local port. The server stops with
// the test, and dies with the test process. Start skips the test with -short, and where versitygw is not installed. Any other
// failure fails the test.
package s3test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// The server's credentials. Start puts them in the environment, where clients look for them.
const (
	accessKey = "s3test"
	SecretKey = "s3test-secret-key"
	region    = "us-east-1"
)

// patience bounds the start of the server, for a busy machine.
const patience = 20 * time.Second

// Server is a running store. Its methods are safe to call from several tests at once.
type Server struct {
	addr    string
	folder  string // one folder for each bucket
	buckets atomic.Int64
}

// SetCredentials sets the server's credentials in the environment, if set is os.Setenv.
func SetCredentials(set func(name, value string) error) error {
	return errors.Join(set("AWS_ACCESS_KEY_ID", accessKey), set("AWS_SECRET_ACCESS_KEY", SecretKey))
}

// Start starts a store that runs until tb and its subtests end. It sets environment variables, so tb cannot be parallel, unless
// TestMain has called SetCredentials.
func Start(tb testing.TB) *Server {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starting versitygw takes a second")
	}
	program, err := exec.LookPath("versitygw")
	if err != nil {
		tb.Skip("versitygw is not installed")
	}
	_ = SetCredentials(func(name, value string) error { // cannot fail
		if os.Getenv(name) != value {
			tb.Setenv(name, value)
		}
		return nil
	})
	dir := tb.TempDir()
	s := &Server{addr: freeAddress(tb), folder: filepath.Join(dir, "buckets")}
	if err := os.Mkdir(s.folder, 0o700); err != nil {
		tb.Fatal(err)
	}
	// The server stores entity tags in extended attributes, which the file system must support. The alternative, tags in files
	// next to the objects, compares the wrong tags.
	s.run(tb, dir, program, "--port", s.addr, "--quiet", "posix", s.folder)
	return s
}

func freeAddress(tb testing.TB) string {
	tb.Helper()
	// Below the ephemeral ports: the kernel could give one of those to a connection before the server starts.
	const first, end, attempts = 10_000, 32_000, 100
	var err error
	for range attempts {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.N(end-first)))
		var listener net.Listener
		if listener, err = net.Listen("tcp", addr); err == nil {
			_ = listener.Close()
			return addr
		}
	}
	tb.Fatalf("find a free port: %v", err)
	return ""
}

// run starts the server and waits until it answers.
func (s *Server) run(tb testing.TB, dir string, command ...string) {
	tb.Helper()
	// The shell lives as long as its standard input, a pipe that closes when this process ends for any reason.
	const guard = `"$@" >log 2>&1 & cat >/dev/null; kill -9 $!; wait`
	shell := exec.Command("sh", append([]string{"-c", guard, "sh"}, command...)...)
	shell.Dir = dir
	shell.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+SecretKey)
	alive, err := shell.StdinPipe()
	if err == nil {
		err = shell.Start()
	}
	if err != nil {
		tb.Fatalf("start versitygw: %v", err)
	}
	tb.Cleanup(func() { stop(shell, alive) })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.await(ctx); err != nil {
		stop(shell, alive)
		log, readErr := os.ReadFile(filepath.Join(dir, "log"))
		tb.Fatalf("versitygw does not answer: %v\n%s", errors.Join(err, readErr), log)
	}
}

func stop(shell *exec.Cmd, alive io.Closer) {
	_ = alive.Close()
	_ = shell.Wait() // the exit status reflects only the kill
}

// await polls until the server answers with any status, or ctx ends.
func (s *Server) await(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			return response.Body.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// NewBucket creates an empty bucket and returns its URL for bucket.Open.
func (s *Server) NewBucket(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test%d", s.buckets.Add(1))
	if err := os.Mkdir(filepath.Join(s.folder, name), 0o700); err != nil {
		tb.Fatal(err)
	}
	query := url.Values{"endpoint": {"http://" + s.addr}, "region": {region}}
	return "s3://" + name + "/some/prefix?" + query.Encode()
}

// Folder returns the folder that holds the objects of a bucket created by NewBucket, to back up, destroy and restore. Entity
// tags are in extended attributes, which a copy of the files must preserve.
func (s *Server) Folder(tb testing.TB, location string) string {
	tb.Helper()
	u, err := url.Parse(location)
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(s.folder, u.Host)
}
