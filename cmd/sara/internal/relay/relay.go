// Package relay forwards the messages of the Model Context Protocol between a program's standard streams and the MCP endpoint of a server,
// for clients that only start processes.
//
// A message is one line of JSON on the streams, and one POST to the server. The bodies pass unchanged, so that client and server negotiate
// the revision of the protocol themselves. The relay adds what only HTTP has: the credential, and the header fields that repeat parts of
// the body. A request that gets no JSON-RPC answer is answered by the relay, with an error that names the cause and the fix.
//
// The state is the negotiated revision and the requests in flight, at most eight: while there are as many, nothing is read. At the end of
// the input, the relay answers the requests in flight and ends. At the end of its context it cancels them.
package relay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	atOnce     = 8               // requests in flight
	patience   = 2 * time.Minute // for one answer; sara answers within 25 seconds
	maxMessage = 4 << 20         // bytes of a message, in both directions
	firstRead  = 64 << 10        // bytes of the buffer, which grows to maxMessage
)

// Config configures a relay.
type Config struct {
	Endpoint  string // URL of the MCP endpoint
	Key       string // API key; no answer and no line of the log contains it
	Transport http.RoundTripper
	Log       io.Writer // for people: one line for each message that failed
}

// Run forwards messages until the input ends. When it returns, no request is in flight. The error is one of the streams, or that of ctx.
// A failed request is not an error: the client gets it as an answer.
func Run(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	s := &session{Config: c, out: out, inFlight: make(map[string]context.CancelFunc)}
	s.client = http.Client{Transport: c.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the key is for this server only
	}}
	i := &input{lines: make(chan []byte)}
	go i.read(within, in)
	for open := true; open; {
		var line []byte
		select {
		case <-within.Done():
			open = false
		case line, open = <-i.lines:
			if open && len(line) > 0 {
				s.receive(within, group, line)
			}
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return i.err
}

// An input is read by a goroutine of its own, because a read of standard input cannot be cancelled: it may outlive the relay, until the
// process ends.
type input struct {
	lines chan []byte
	err   error // set before lines is closed
}

func (i *input) read(ctx context.Context, in io.Reader) {
	defer close(i.lines)
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 0, firstRead), maxMessage)
	for scanner.Scan() {
		select {
		case i.lines <- bytes.Clone(bytes.TrimSpace(scanner.Bytes())):
		case <-ctx.Done():
			return
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		i.err = fmt.Errorf("standard input has a line of more than %d bytes", maxMessage)
	case err != nil:
		i.err = fmt.Errorf("read standard input: %w", err)
	}
}

// A session is one run of a relay.
type session struct {
	Config
	client http.Client

	writing sync.Mutex // guards out
	out     io.Writer

	mu       sync.Mutex                    // guards the following fields
	revision string                        // that initialize negotiated
	inFlight map[string]context.CancelFunc // by the id of the request, as JSON
}

// receive handles one line of the input. It blocks while too many requests are in flight.
func (s *session) receive(ctx context.Context, group *errgroup.Group, line []byte) {
	m, problem := parse(line)
	switch {
	case problem != nil:
		group.Go(func() error { return s.write(problem.answer("null")) })
	case m.method == "notifications/cancelled":
		s.cancel(m.cancels) // over HTTP, the end of its connection cancels a request
	default:
		of, cancel := context.WithCancel(ctx)
		s.begin(&m, cancel)
		group.Go(func() error {
			defer s.end(&m, cancel)
			return s.forward(of, &m)
		})
	}
}

func (s *session) begin(m *message, cancel context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.isRequest() {
		s.inFlight[m.id] = cancel
	}
}

func (s *session) end(m *message, cancel context.CancelFunc) {
	cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inFlight, m.id)
}

// cancel ends a request without an answer.
func (s *session) cancel(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.inFlight[id]; cancel != nil {
		cancel()
	}
}

// negotiated returns the revision of initialize, empty before it is answered.
func (s *session) negotiated() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// negotiate remembers the revision in the answer to initialize, before the client sees it.
func (s *session) negotiate(revision string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision = revision
}

// write writes a message as one line.
func (s *session) write(message []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, err := s.out.Write(append(message, '\n')); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}
