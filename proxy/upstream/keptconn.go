package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"

	"github.com/valyala/fasthttp"
)

// A keptConn is a connection to the upstream that is reused for many requests. It refuses the next one if there is something to
// read before it is sent: the connection was closed, or a proxy in between has sent a second answer, which would be taken for the answer
// to the next question, about another property.
type keptConn struct {
	net.Conn          // a *tls.Conn if the upstream uses TLS, else the socket
	socket   net.Conn // TLS reads from it
	used     bool     // for at least one request
}

// dialKept connects to the upstream, with TLS unless config is nil. The timeout is for the whole of it, the socket has dialTimeout.
func dialKept(address string, timeout time.Duration, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	socket, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if config == nil {
		return &keptConn{Conn: socket, socket: socket}, nil
	}
	conn := tls.Client(socket, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = socket.Close()
		return nil, err
	}
	return &keptConn{Conn: conn, socket: socket}, nil
}

// Handshake does nothing: with this method, the library does not add TLS itself, underneath which a keptConn would not see what TLS has read.
func (*keptConn) Handshake() error { return nil }

// SetReadDeadline implements net.Conn. The library calls it when a request has been sent.
func (c *keptConn) SetReadDeadline(t time.Time) error {
	c.used = true
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn. The library calls it before each request.
func (c *keptConn) SetWriteDeadline(t time.Time) error {
	err := c.Conn.SetWriteDeadline(t)
	if err == nil && c.used && (hasInput(c.socket) || c.hasReadAhead()) {
		err = fasthttp.ErrConnectionClosed
	}
	return err
}

// hasReadAhead reports whether TLS has read more from the socket than was read from it. After the deadline, a read gets only that.
func (c *keptConn) hasReadAhead() bool {
	if c.Conn == c.socket {
		return false
	}
	if c.Conn.SetReadDeadline(time.Unix(1, 0)) != nil {
		return true
	}
	var next [1]byte
	_, err := c.Conn.Read(next[:])
	return !errors.Is(err, os.ErrDeadlineExceeded)
}
