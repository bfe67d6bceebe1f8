package connections

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// A Conn is a client's connection.
type Conn struct {
	net.Conn
	Address string // IP address of the client, or of the proxy in front

	set     *Set
	network string // of the address; empty: connections are not counted by network
	reading lazyDeadline
	writing lazyDeadline
	arrived int          // bytes since the request in progress began; used by the goroutine that reads
	waiting atomic.Int64 // when it began to wait for bytes, by the clock of set; or busy, or evicted
	used    atomic.Bool  // it has carried a byte
	keyed   atomic.Bool  // it has carried a valid key
}

// The states of a connection that does not wait for bytes.
const (
	busy    = 0
	evicted = -1
)

// maxUnsent is how many bytes, about, the kernel takes beyond what the client's window has room for.
const maxUnsent = 64 << 10

func (s *Set) newConn(conn net.Conn) *Conn {
	c := &Conn{Conn: conn, set: s, reading: lazyDeadline{set: conn.SetReadDeadline}, writing: lazyDeadline{set: conn.SetWriteDeadline}}
	if tcp, ok := conn.(*net.TCPConn); ok {
		boundUnsent(tcp)
	}
	if address, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		c.Address = address.IP.String()
	}
	return c
}

// Read implements net.Conn. A connection that is read from waits for a request, or for the rest of one: it may be evicted.
func (c *Conn) Read(p []byte) (int, error) {
	c.waiting.Store(c.set.now())
	n, err := c.read(p)
	if n > 0 && !c.used.Load() {
		c.used.Store(true)
	}
	if c.waiting.Swap(busy) == evicted {
		return 0, os.ErrDeadlineExceeded
	}
	return n, err
}

func (c *Conn) read(p []byte) (int, error) {
	for {
		if c.IsOverrun() {
			return 0, fasthttp.ErrBodyTooLarge
		}
		n, err := c.Conn.Read(p)
		if c.arrived += n; err == nil || n > 0 || !c.reading.extends(err) {
			return n, err
		}
	}
}

// BeginRequest begins to count the bytes of the next request.
func (c *Conn) BeginRequest() { c.arrived = 0 }

// IsOverrun reports whether the request in progress has more than Config.MaxRequest bytes: then nothing more is read.
func (c *Conn) IsOverrun() bool { return c.arrived > c.set.config.MaxRequest }

// MarkKeyed records that the connection has carried a valid key; the request is in progress. Most are not the first on theirs, and only
// read.
func (c *Conn) MarkKeyed() {
	if !c.keyed.Load() {
		c.keyed.Store(true)
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (written int, err error) {
	for {
		n, err := c.Conn.Write(p[written:])
		written += n
		if err == nil || !c.writing.extends(err) {
			return written, err
		}
	}
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.set.remove(c)
	return c.Conn.Close()
}

// Abort closes the connection while it is being written to. The kernel drops what it has not sent yet.
func (c *Conn) Abort() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.Close() // its writer notices
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.reading.moveTo(t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.writing.moveTo(t) }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.reading.moveTo(t), c.writing.moveTo(t))
}
