package upstream

import (
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// A keptConn is a connection to the upstream that is reused for many requests. It refuses the next one if there is something to
// read before it is sent: the connection was closed, or a proxy in between has sent a second answer, which would be taken for the answer
// to the next question, about another property.
type keptConn struct {
	net.Conn
	used bool // for at least one request
}

// SetReadDeadline implements net.Conn. The library calls it when a request has been sent, but not during the TLS handshake.
func (c *keptConn) SetReadDeadline(t time.Time) error {
	c.used = true
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn. The library calls it before each request.
func (c *keptConn) SetWriteDeadline(t time.Time) error {
	err := c.Conn.SetWriteDeadline(t)
	if err == nil && c.used && hasInput(c.Conn) {
		err = fasthttp.ErrConnectionClosed
	}
	return err
}
