package upstream

import (
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// A keptConn is a connection to the upstream that is used for one request after another. It refuses the next one if there is something to
// read before it is sent: the connection was closed, or a proxy in between has sent a second answer, which would be read as the one to the
// next question, of another property.
type keptConn struct {
	net.Conn
	used bool // for a request
}

// SetReadDeadline implements net.Conn. The library calls it when a request has been sent, and not during the handshake of TLS.
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
