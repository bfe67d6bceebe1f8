package proxy

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// A listener accepts the connections for which there is room, and refuses all others in the API's envelope: the HTTP library
// would refuse in plain text.
type listener struct {
	net.Listener
	server  *Server
	patient chan struct{} // holds a value for each connection that is refused with patience
	hasty   hastyRefusals
	closed  chan struct{}
	close   func() error
	refusal connectionRefusal // used by Accept only
}

func (s *Server) newListener(l net.Listener) *listener {
	closed := make(chan struct{})
	return &listener{Listener: l, server: s, patient: make(chan struct{}, maxRefusals), closed: closed,
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

// acceptAny accepts the next connection. An error, such as a lack of file descriptors, must not end the process: acceptAny backs off and
// tries again.
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
