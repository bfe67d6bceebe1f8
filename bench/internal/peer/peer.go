// Package peer runs what an engineer would build instead of sara, to be measured in the same run: nginx with Lua, and
// HAProxy. Each has to do what sara does for a request that hits its cache: find out who asks by a bearer key of which only
// a digest is stored, admit the request by three limits (a minute by key, an hour and a day by account) whose counts
// replicas share in Redis, and answer with JSON from a cache. About says where a peer does less.
//
// The configurations are ours, written to be fast: nothing here is meant as a handicap. The programs are installed on Debian
// by
//
//	apt-get install nginx libnginx-mod-http-lua lua-resty-core lua-resty-lrucache lua-nginx-string haproxy
//
// which may start services of the system; those are not used, and can be stopped. The peers here run from a folder of the
// caller's on free ports of 127.0.0.1, and end with Stop, or with this process however that ends.
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
)

// A Peer is something to compare sara with.
type Peer interface {
	// Name is a few words for the head of a column.
	Name() string
	// About says in one line what of sara's work it does, and what not.
	About() string
	// Available returns nil if what it needs is installed on this machine, and otherwise what to install.
	Available() error
	// Start starts it, waits until it serves, and has it cache the answer: the first request that its limits count.
	Start(context.Context, Setup) (*Running, error)
}

// All returns the peers, installed or not, the one that does the most of sara's work first.
func All() []Peer { return []Peer{Nginx{}, HAProxy{Redis: true}, HAProxy{}} }

// Setup is what a peer is to serve.
type Setup struct {
	Folder string // for its files; to be empty, and of an absolute path
	Redis  string // host and port of a Redis for this peer alone: what it keeps there stays
	Key    string // the bearer key that is admitted
	Path   string // of the answer, with its parameters
	Body   []byte // the answer, JSON
	Limits Limits
}

// Limits are numbers of requests, each at least 1.
type Limits struct{ PerMinute, PerHour, PerDay int }

// Running is a peer that serves, until it is stopped.
type Running struct {
	Address string // host and port
	Request []byte // a whole HTTP/1.1 request that is answered with 200 and the answer, for as long as limits admit it
	PIDs    []int  // of all of its processes, Redis not included

	process *process
	origin  *origin
}

// Stop ends the peer and waits for it.
func (r *Running) Stop() error {
	var err error
	if r.process != nil {
		err = r.process.stop()
	}
	return errors.Join(err, r.origin.close())
}

// patience is how long starting or stopping may take, on a slow machine that does a lot else.
const patience = 30 * time.Second

// admitScript is what charges the limits in Redis.
//
//go:embed admit.lua
var admitScript []byte

// account is whose key and answer there are.
const account = "account-1"

// open finds a port and starts the origin of a peer that is to listen there.
func (s Setup) open() (_ *Running, port int, err error) {
	if port, err = freePort(); err != nil {
		return nil, 0, err
	}
	o, err := serveAnswer(s.Body)
	if err != nil {
		return nil, 0, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", s.Path, address, s.Key)
	return &Running{Address: address, Request: request, origin: o}, port, nil
}

// write writes a file of the peer.
func (s Setup) write(name string, text []byte) error {
	return os.WriteFile(filepath.Join(s.Folder, name), text, 0o644)
}

// configure writes a file that is a template.
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

// serve starts the program and returns when it has the answer in its cache.
func (r *Running) serve(ctx context.Context, s Setup, program string, args ...string) (err error) {
	if r.process, err = launch(s.Folder, program, args...); err != nil {
		return err
	}
	if err := s.ask(ctx, r); err != nil {
		return err
	}
	r.PIDs, err = r.process.pids()
	return err
}

// ask asks for the answer, over and over while nobody listens. It is an error if what comes is not the answer.
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
		case <-r.process.ended:
			return errors.New("it ended before it served")
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

// freePort returns a port of 127.0.0.1 that nobody listens on at this moment.
func freePort() (port int, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}
