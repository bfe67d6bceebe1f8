// Package peer runs what an engineer would build instead of sara, to be measured in the same run: nginx with Lua, and a
// gateway that one can install. Each has to do what sara does for a request that hits its cache: find out who asks by a
// bearer key of which only a digest is stored, admit the request by three limits (a minute by key, an hour and a day by
// account) whose counts are in Redis, and answer with JSON from a cache. About says where a peer does less.
//
// The configurations are ours, written to be fast: nothing here is a handicap, and what a peer cannot do is not charged to
// it. What they need is installed on Debian by
//
//	apt-get install nginx libnginx-mod-http-lua lua-resty-core lua-resty-lrucache lua-nginx-redis lua-nginx-string
//
// and they run from a folder of the caller's on free ports of 127.0.0.1; nothing of the system is configured or served. The
// package starts no Redis and empties none. Peers end with Stop, and with this process however that ends.
package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
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
	// Start starts it, waits until it serves, and has it cache the answer.
	Start(context.Context, Setup) (*Running, error)
}

// Setup is what a peer is to serve.
type Setup struct {
	Folder string // for its files; to be empty, and of an absolute path
	Redis  string // host and port of a Redis that nobody else uses meanwhile
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

// open starts the origin of a peer that is to listen on a port.
func (s Setup) open(port int) (*Running, error) {
	o, err := serveAnswer(s.Body)
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", s.Path, address, s.Key)
	return &Running{Address: address, Request: request, origin: o}, nil
}

// ask asks for the answer, over and over while nobody listens, and returns what the peer says of its cache. It is an error
// if that is not the answer.
func (s Setup) ask(ctx context.Context, r *Running) (state string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Address+s.Path, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+s.Key)
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	for again := time.NewTicker(10 * time.Millisecond); errors.Is(err, syscall.ECONNREFUSED); response, err = transport.RoundTrip(request) {
		select {
		case <-again.C:
		case <-r.process.ended:
			return "", errors.New("it ended before it served")
		case <-ctx.Done():
			return "", fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK || !bytes.Equal(body, s.Body) {
		return "", fmt.Errorf("GET %s: %s, %d bytes instead of %d: %.200s", s.Path, response.Status, len(body), len(s.Body), body)
	}
	return response.Header.Get("X-Cache"), nil
}

// freePort returns a port of 127.0.0.1 that nobody listens on at this moment.
func freePort() (port int, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}
