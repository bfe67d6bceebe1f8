package proxy

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sara/policy"
)

// A connection is a client's connection. It caches the client's address for the requests on it, and makes deadlines cheap to
// move: the HTTP library moves them three times a request, to resist clients that read or write slowly (slowloris).
type connection struct {
	net.Conn
	address string // IP address of the client, or of the proxy in front
	reading lazyDeadline
	writing lazyDeadline
	arrived int // bytes since the last request was complete; used by the goroutine that reads

	// spare is the memory of the call of an earlier request; nil: there is none. The connection carries one request at a time, so
	// that it needs no lock.
	spare *call
	begun *call // of the request in progress, whose route is not known yet; nil: it is, or there is none

	// The last Authorization field with a key, and the hash of the key: most clients have one key.
	authorization []byte
	keyHash       policy.Hash

	network string       // of the address; empty: connections are not counted by network
	open    *connections // that it is one of; nil for one that was refused, or that carries the requests of an MCP message
	waiting atomic.Int64 // when it began to wait for bytes, by the clock of open; or busy, or evicted
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

func newConnection(conn net.Conn) *connection {
	c := &connection{Conn: conn, reading: lazyDeadline{set: conn.SetReadDeadline}, writing: lazyDeadline{set: conn.SetWriteDeadline}}
	if tcp, ok := conn.(*net.TCPConn); ok {
		boundUnsent(tcp)
	}
	if address, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		c.address = address.IP.String()
	}
	return c
}

// Read implements net.Conn. A connection that is read from waits for a request, or for the rest of one: it may be evicted.
func (c *connection) Read(p []byte) (int, error) {
	if c.open == nil {
		return c.read(p)
	}
	c.waiting.Store(c.open.now())
	n, err := c.read(p)
	if n > 0 && !c.used.Load() {
		c.used.Store(true)
	}
	if c.waiting.Swap(busy) == evicted {
		return 0, os.ErrDeadlineExceeded
	}
	return n, err
}

func (c *connection) read(p []byte) (int, error) {
	for {
		if c.arrived > maxRequest {
			return 0, fasthttp.ErrBodyTooLarge
		}
		n, err := c.Conn.Read(p)
		if c.arrived += n; err == nil || n > 0 || !c.reading.extends(err) {
			return n, err
		}
	}
}

// Close implements net.Conn.
func (c *connection) Close() error {
	if c.open != nil {
		c.open.remove(c)
	}
	return c.Conn.Close()
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

// markKeyed records that the connection has carried a valid key. Most requests are not the first on theirs, and only read.
func (c *connection) markKeyed() {
	if !c.keyed.Load() {
		c.keyed.Store(true)
	}
}

// takeCall returns memory for the call of a request.
func (c *connection) takeCall() *call {
	taken := c.spare
	if c.spare = nil; taken == nil {
		taken = new(call)
	}
	return taken
}

// keepCall keeps the call of an answered request for the next one, unless it is held. Its body is not sent yet, but will be before the
// next request is read.
func (c *connection) keepCall(answered *call) {
	if !answered.held {
		answered.release()
		c.spare = answered
	}
}

// hashKey is policy.HashKey, for a field of a request on the connection.
func (c *connection) hashKey(authorization string) policy.Hash {
	if len(c.authorization) > 0 && string(c.authorization) == authorization {
		return c.keyHash
	}
	hash := policy.HashKey(authorization)
	if hash != (policy.Hash{}) && len(authorization) <= maxKeptAuthorization {
		c.authorization, c.keyHash = append(c.authorization[:0], authorization...), hash
	}
	return hash
}

// maxKeptAuthorization bounds what a connection keeps; the field with a key of usual form is shorter.
const maxKeptAuthorization = 128

// SetReadDeadline implements net.Conn.
func (c *connection) SetReadDeadline(t time.Time) error { return c.reading.moveTo(t) }

// SetWriteDeadline implements net.Conn.
func (c *connection) SetWriteDeadline(t time.Time) error { return c.writing.moveTo(t) }

// SetDeadline implements net.Conn.
func (c *connection) SetDeadline(t time.Time) error {
	return errors.Join(c.reading.moveTo(t), c.writing.moveTo(t))
}

// A lazyDeadline is a deadline that moves often and expires seldom. Setting a connection's deadline costs a third of a read, so
// only an earlier deadline is set at once. A later one is set when the one in force expires. It is safe for concurrent use.
type lazyDeadline struct {
	set func(time.Time) error // the connection's own

	mu      sync.Mutex // guards the following fields
	wanted  time.Time  // zero: none
	inForce time.Time  // on the connection; never later than wanted; zero: none
}

// moveTo moves the deadline. A zero t removes it.
func (d *lazyDeadline) moveTo(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	if t.IsZero() || !d.inForce.IsZero() && !t.Before(d.inForce) {
		return nil
	}
	d.inForce = t
	return d.set(t)
}

// extends reports whether a read or write that failed with err must be retried, because its deadline was moved meanwhile. It
// sets the wanted deadline.
func (d *lazyDeadline) extends(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inForce.Equal(d.wanted) {
		return false
	}
	d.inForce = d.wanted
	return d.set(d.wanted) == nil
}
