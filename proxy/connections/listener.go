package connections

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// A Listener accepts the connections for which there is room, and refuses all others.
type Listener struct {
	inner   net.Listener
	set     *Set
	refusal func() []byte
	patient chan struct{} // holds a value for each connection that is refused with patience
	hasty   hastyRefusals
	closed  chan struct{}
	close   func() error
}

// Listen returns a Listener in place of inner. refusal returns the answer to the next connection that is refused; Accept calls it.
func (s *Set) Listen(inner net.Listener, refusal func() []byte) *Listener {
	closed := make(chan struct{})
	return &Listener{inner: inner, set: s, refusal: refusal, patient: make(chan struct{}, maxRefusals), closed: closed,
		close: sync.OnceValue(func() error {
			close(closed)
			return inner.Close()
		})}
}

// Addr returns the address of the listener.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Close closes the listener; further calls return the same.
func (l *Listener) Close() error { return l.close() }

func (l *Listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// Accept waits for the next connection for which there is room. Its only error is that the listener is closed.
func (l *Listener) Accept() (*Conn, error) {
	for {
		conn, err := l.acceptAny()
		if err != nil {
			return nil, err
		}
		c := l.set.newConn(conn)
		if l.set.admit(c) == "" {
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
func (l *Listener) acceptAny() (net.Conn, error) {
	for delay := minAcceptDelay; ; delay = min(2*delay, maxAcceptDelay) {
		conn, err := l.inner.Accept()
		switch {
		case err == nil:
			return conn, nil
		case l.isClosed(), errors.Is(err, net.ErrClosed):
			return nil, net.ErrClosed
		}
		l.set.metrics.acceptErrors.Inc()
		if delay == minAcceptDelay {
			l.set.config.Log.Error("cannot accept connections: trying again", slog.Any("error", err))
		}
		select {
		case <-time.After(delay):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}
