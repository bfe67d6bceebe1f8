package loadgen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/valyala/fasthttp"
)

// readBuffer is large enough for a typical answer to arrive in one read.
const readBuffer = 16 << 10

// A connection sends requests to a server, one at a time, and reads the answers. It is reopened when the server closes it, which
// servers may do at any time between two answers. It belongs to one goroutine.
type connection struct {
	ctx      context.Context // when it ends, the connection is closed, which unblocks an exchange
	address  string
	conn     net.Conn // nil after an answer that announced its end
	detach   func() bool
	answers  *bufio.Reader
	received int64 // bytes
	failure  error // of the last read
}

// open opens a connection.
func open(ctx context.Context, address string) (*connection, error) {
	c := &connection{ctx: ctx, address: address}
	c.answers = bufio.NewReaderSize(c, readBuffer)
	return c, c.reopen()
}

func (c *connection) reopen() error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(c.ctx, "tcp", c.address)
	if err != nil {
		return err
	}
	c.conn, c.detach = conn, context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	return nil
}

// close is called when no answer is expected, or after an error, so its own error does not matter.
func (c *connection) close() {
	if c.conn == nil {
		return
	}
	c.detach()
	_ = c.conn.Close()
	c.conn = nil
}

// exchange sends a request and reads its answer. If the server closes the connection without any byte of an answer, the request is
// sent again once.
func (c *connection) exchange(request Request, answer *fasthttp.Response) error {
	before := c.received
	err := c.ask(request, answer)
	if ClosedBetweenAnswers(err) && c.received == before {
		c.close()
		err = c.ask(request, answer)
	}
	return err
}

// ClosedBetweenAnswers reports whether the server closed a kept-alive connection before it answered, as servers may at any
// time. Then a GET is sent again once.
func ClosedBetweenAnswers(err error) bool {
	return err == io.EOF || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) // a wrapped io.EOF is half an answer
}

func (c *connection) ask(request Request, answer *fasthttp.Response) error {
	if c.conn == nil {
		if err := c.reopen(); err != nil {
			return err
		}
	}
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	err := answer.Read(c.answers)
	switch {
	case err == io.EOF && c.failure != nil: // the library returns io.EOF for any error before the first byte
		return c.failure
	case err != nil:
		return err
	case c.failure != nil:
		return fmt.Errorf("an answer without a length, which may be incomplete: %w", c.failure)
	case c.answers.Buffered() > 0:
		return fmt.Errorf("%d bytes after the end of the answer", c.answers.Buffered())
	}
	if answer.ConnectionClose() {
		c.close()
	}
	return nil
}

// Read reads from the server, for the buffer.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.conn.Read(p)
	c.received += int64(n)
	c.failure = err
	return n, err
}
