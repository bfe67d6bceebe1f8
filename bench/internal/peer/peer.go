// Package peer runs the alternatives to sara that an engineer would build, to measure them in the same run: nginx with Lua,
// and HAProxy. Each does sara's work for a cache hit: authenticate a bearer key of which only a digest is stored, apply
// three limits (per minute and key, per hour and per day and account) whose counters replicas share in Redis, and answer with
// JSON from a cache. About names what a peer leaves out.
//
// We wrote and tuned the configurations; no peer is handicapped. On Debian, install the programs with
//
//	apt-get install nginx libnginx-mod-http-lua lua-resty-core lua-resty-lrucache lua-nginx-string haproxy
//
// That may start system services, which are not used and can be stopped. The peers run in the caller's folder, on free
// ports of 127.0.0.1. They end with Stop, or when this process ends.
package peer

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"text/template"
	"time"

	"sara/bench/internal/subprocess"
)

// A Peer is an alternative to compare sara with.
type Peer interface {
	// Name is a short name for tables.
	Name() string
	// About describes in one line which parts of sara's work it does, and which it does not.
	About() string
	// Available returns nil if its programs are installed, and otherwise an error that names what to install.
	Available() error
	// Start starts it, waits until it serves, and puts the answer into its cache with one request, which its limits count.
	Start(context.Context, Setup) (*Running, error)
}

// All returns the peers, installed or not, ordered by how much of sara's work they do.
func All() []Peer { return []Peer{Nginx{}, HAProxy{Redis: true}, HAProxy{}} }

// Setup is what a peer should serve.
type Setup struct {
	Folder string // for its files: empty, and an absolute path
	Redis  string // host:port of a Redis only for this peer, which leaves its keys there
	Key    string // the only valid bearer key
	Path   string // of the answer, with its query
	Body   []byte // the answer, JSON
	Limits Limits
	Log    string // file for the line of each request; in a comparison, the same as sara's
}

// Limits are numbers of requests, each at least 1.
type Limits struct{ PerMinute, PerHour, PerDay int }

// Running is a peer that serves until it is stopped.
type Running struct {
	Address string // host:port
	PIDs    []int  // of all its processes, without Redis

	process *subprocess.Process
	origin  *origin
}

// Stop ends the peer and waits for it.
func (r *Running) Stop() error {
	var err error
	if r.process != nil {
		err = r.process.Stop()
	}
	return errors.Join(err, r.origin.close())
}

// patience limits the start, with room for a slow and busy machine.
const patience = 30 * time.Second

// admitScript charges the limits in Redis.
//
//go:embed admit.lua
var admitScript []byte

// account owns the key.
const account = "account-1"

// open chooses a port for a peer and starts its origin.
func (s Setup) open() (_ *Running, port int, err error) {
	if port, err = freePort(); err != nil {
		return nil, 0, err
	}
	o, err := serveAnswer(s.Body)
	if err != nil {
		return nil, 0, err
	}
	return &Running{Address: fmt.Sprintf("127.0.0.1:%d", port), origin: o}, port, nil
}

// write writes a file into the peer's folder.
func (s Setup) write(name string, text []byte) error {
	return os.WriteFile(filepath.Join(s.Folder, name), text, 0o644)
}

// configure executes a template and writes the result.
func (s Setup) configure(name, text string, values any) error {
	configuration, err := template.New(name).Parse(text)
	if err != nil {
		return err
	}
	var filled bytes.Buffer
	if err := configuration.Execute(&filled, values); err != nil {
		return err
	}
	return s.write(name, filled.Bytes())
}

// serve starts the program, and returns when the answer is in its cache.
func (r *Running) serve(ctx context.Context, s Setup, program string, args ...string) (err error) {
	if r.process, err = subprocess.Start(subprocess.Config{Program: program, Args: args, Folder: s.Folder}); err != nil {
		return err
	}
	if err := s.ask(ctx, r); err != nil {
		return err
	}
	r.PIDs, err = r.process.PIDs()
	return err
}

// ask requests the answer, and retries while nothing listens. Any other answer is an error.
func (s Setup) ask(ctx context.Context, r *Running) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Address+s.Path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.Key)
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for ; errors.Is(err, syscall.ECONNREFUSED); response, err = transport.RoundTrip(request) {
		select {
		case <-again.C:
		case <-r.process.Ended:
			return errors.New("it ended before it listened")
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || !bytes.Equal(body, s.Body) {
		return fmt.Errorf("GET %s: %s, %d bytes instead of %d: %.200s", s.Path, response.Status, len(body), len(s.Body), body)
	}
	return nil
}

// freePort returns a port of 127.0.0.1 that is free now.
func freePort() (port int, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}
