package proxy

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// listener makes connections of those that it accepts.
type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newConnection(conn), nil
}

// A connection is a client's. It knows what each request on it would have to find out again, and is cheap to give new
// deadlines, as the HTTP library does three times for each request.
type connection struct {
	net.Conn
	address string // of the client or of the proxy that it comes through, without the port
	reading lazyDeadline
	writing lazyDeadline
}

func newConnection(conn net.Conn) *connection {
	c := &connection{Conn: conn, reading: lazyDeadline{set: conn.SetReadDeadline}, writing: lazyDeadline{set: conn.SetWriteDeadline}}
	if address, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		c.address = address.IP.String()
	}
	return c
}

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err == nil || n > 0 || !c.reading.extends(err) {
			return n, err
		}
	}
}

// Write implements net.Conn.
func (c *connection) Write(p []byte) (written int, err error) {
	for {
		n, err := c.Conn.Write(p[written:])
		written += n
		if err == nil || !c.writing.extends(err) {
			return written, err
		}
	}
}

// SetReadDeadline implements net.Conn.
func (c *connection) SetReadDeadline(t time.Time) error { return c.reading.moveTo(t) }

// SetWriteDeadline implements net.Conn.
func (c *connection) SetWriteDeadline(t time.Time) error { return c.writing.moveTo(t) }

// SetDeadline implements net.Conn.
func (c *connection) SetDeadline(t time.Time) error {
	return errors.Join(c.reading.moveTo(t), c.writing.moveTo(t))
}

// A lazyDeadline is one that moves often and passes seldom. Moving that of a connection takes a third of the time of a
// read, so that the connection is told of an earlier one only; of a later one once the one that it knows of has passed. It is
// safe for concurrent use.
type lazyDeadline struct {
	set func(time.Time) error // the connection's own

	mu    sync.Mutex // guards what follows
	last  time.Time  // as it was moved; zero: there is none
	known time.Time  // as the connection knows it: no later than last, if there is one; zero: it knows of none
}

// moveTo moves the deadline, to none if t is zero.
func (d *lazyDeadline) moveTo(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = t
	if t.IsZero() || !d.known.IsZero() && !t.Before(d.known) {
		return nil
	}
	d.known = t
	return d.set(t)
}

// extends reports whether a read or a write that ended with err is to go on, because it was for a deadline that has moved on
// since. The connection knows the last one then.
func (d *lazyDeadline) extends(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known.Equal(d.last) {
		return false
	}
	d.known = d.last
	return d.set(d.last) == nil
}
