package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// A listener accepts the connections for which there is room, and refuses all others in the API's envelope: the HTTP library
// would refuse in plain text.
type listener struct {
	net.Listener
	server   *Server
	refusals chan struct{} // holds a value for each connection that is being refused
	closed   chan struct{}
	close    func() error
	refusal  connectionRefusal // used by Accept only
}

// A connectionRefusal is the answer to connections for which there is no room. In a flood of them it is written once a second: only the
// id differs.
type connectionRefusal struct {
	second int64
	id     string
	text   []byte
}

// maxRefusals bounds the connections that are refused at the same time with patience.
const maxRefusals = 64

func (s *Server) newListener(l net.Listener) *listener {
	closed := make(chan struct{})
	return &listener{Listener: l, server: s, refusals: make(chan struct{}, maxRefusals), closed: closed,
		close: sync.OnceValue(func() error {
			close(closed)
			return l.Close()
		})}
}

// Close implements net.Listener.
func (l *listener) Close() error { return l.close() }

func (l *listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// Accept implements net.Listener. Its only error is that the listener is closed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.acceptAny()
		if err != nil {
			return nil, err
		}
		c := newConnection(conn)
		if l.server.open.admit(c) == "" {
			return c, nil
		}
		l.refuse(conn)
	}
}

// Backoff after a failure to accept, as in net/http.
const (
	minAcceptDelay = 5 * time.Millisecond
	maxAcceptDelay = time.Second
)

// acceptAny accepts the next connection. An error such as that descriptors have run out must not end the process: it backs off
// and tries again.
func (l *listener) acceptAny() (net.Conn, error) {
	for delay := minAcceptDelay; ; delay = min(2*delay, maxAcceptDelay) {
		conn, err := l.Listener.Accept()
		switch {
		case err == nil:
			return conn, nil
		case l.isClosed(), errors.Is(err, net.ErrClosed):
			return nil, net.ErrClosed
		}
		l.server.open.metrics.acceptErrors.Inc()
		if delay == minAcceptDelay {
			l.server.config.Log.Error("cannot accept connections: trying again", slog.Any("error", err))
		}
		select {
		case <-time.After(delay):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// refuse answers a connection for which there is no room, and closes it. It does not block.
func (l *listener) refuse(conn net.Conn) {
	answer := l.nextRefusal()
	select {
	case l.refusals <- struct{}{}:
		go func() {
			defer func() { <-l.refusals }()
			refusePatiently(conn, answer)
		}()
	default:
		// The send buffer of a new connection takes the answer at once.
		_ = conn.SetWriteDeadline(time.Now().Add(minAcceptDelay))
		_, _ = conn.Write(answer)
		_ = conn.Close()
	}
}

// nextRefusal returns an answer with an id of its own.
func (l *listener) nextRefusal() []byte {
	id, r := newRequestID().String(), &l.refusal
	if second := l.server.config.Now().Unix(); r.text == nil || r.second != second {
		*r = connectionRefusal{second, id, l.server.refusalOfConnection(id)}
	}
	return bytes.ReplaceAll(r.text, []byte(r.id), []byte(id))
}

// refusePatiently sends an answer once the request has come: clients do not expect it earlier. Then it reads what else comes,
// because the answer would get lost if the connection were closed with bytes unread. All of it takes a second at most.
func refusePatiently(conn net.Conn, answer []byte) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = conn.Read(make([]byte, 1<<10))
	// The deadline may have passed without a request.
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write(answer); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.CopyN(io.Discard, conn, maxHeader)
}

// refusalRetry is the Retry-After of a refused connection: others become idle, or end, at any moment.
const refusalRetry = 2 * time.Second

// refusalOfConnection returns the answer to a connection for which there is no room.
func (s *Server) refusalOfConnection(id string) []byte {
	http := new(fasthttp.RequestCtx)
	c := &call{id: id, route: &route{Path: "refused"}, started: s.config.Now(), http: http}
	s.sendError(c, &apiError{code: codeServiceUnavailable, status: fasthttp.StatusServiceUnavailable, retryAfter: refusalRetry,
		message: "too many connections are open: close those that are idle, or use fewer"})
	http.Response.SetConnectionClose()
	http.Response.Header.SetServer(serverName)
	var text bytes.Buffer
	w := bufio.NewWriter(&text)
	if err := errors.Join(http.Response.Write(w), w.Flush()); err != nil {
		panic("BUG: an answer cannot be written into memory: " + err.Error())
	}
	return text.Bytes()
}
