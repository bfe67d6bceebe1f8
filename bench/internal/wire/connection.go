package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
)

const (
	readBuffer  = 64 << 10 // an answer of the usual size is one read
	exampleSize = 500
)

// A connection asks one request at a time. But for close it belongs to one goroutine.
type connection struct {
	address string
	conn    atomic.Pointer[net.TCPConn]
	reader  *bufio.Reader
	request []byte
	fresh   bool // nothing was answered on it yet

	statuses map[int]int64
	cache    map[string]*int64
	examples map[int]string

	sent, received, closed int64
}

func dial(ctx context.Context, address string) (*connection, error) {
	c := &connection{address: address, statuses: map[int]int64{}, cache: map[string]*int64{}, examples: map[int]string{}}
	c.reader = bufio.NewReaderSize(nil, readBuffer)
	return c, c.redial(ctx)
}

func (c *connection) redial(ctx context.Context) error {
	var dialer net.Dialer
	opened, err := dialer.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return err
	}
	tcp, ok := opened.(*net.TCPConn)
	if !ok {
		return fmt.Errorf("BUG: a TCP connection is a %T", opened)
	}
	c.conn.Store(tcp)
	c.reader.Reset(tcp)
	c.fresh = true
	if ctx.Err() != nil { // whoever closes the connections then may have come too early for this one
		c.close()
	}
	return ctx.Err()
}

// close may be called at any time. What the peer thinks of it does not matter any more.
func (c *connection) close() {
	if conn := c.conn.Swap(nil); conn != nil {
		_ = conn.Close()
	}
}

// errClosed is a connection that ended between two answers, as servers may end it at any time.
var errClosed = errors.New("the server closed the connection before it answered")

// exchange sends the request and reads the answer. A GET is sent once more if the server closed the connection meanwhile.
func (c *connection) exchange(ctx context.Context) error {
	if c.conn.Load() == nil {
		if err := c.redial(ctx); err != nil {
			return err
		}
	}
	err := c.try()
	if errors.Is(err, errClosed) && !c.fresh && ctx.Err() == nil {
		c.close()
		c.closed++
		if err := c.redial(ctx); err != nil {
			return err
		}
		err = c.try()
	}
	c.fresh = false
	return err
}

func (c *connection) try() error {
	conn := c.conn.Load()
	if conn == nil {
		return errClosed // the run was ended
	}
	if n, err := conn.Write(c.request); err != nil {
		return fmt.Errorf("%w: after %d bytes of the request: %w", errClosed, n, err)
	}
	c.sent += int64(len(c.request))
	if _, err := c.reader.Peek(1); err != nil {
		return fmt.Errorf("%w: %w", errClosed, err)
	}
	return c.readAnswer()
}

// A head is what has to be known of the head of an answer.
type head struct {
	status  int
	length  int64 // of the body; -1 if the head does not say
	chunked bool
	closes  bool
}

func (c *connection) readAnswer() error {
	h, err := c.readHead()
	if err != nil {
		return err
	}
	c.statuses[h.status]++
	body := sink{keep: c.keeps(h.status)}
	switch {
	case h.status == 204 || h.status == 304:
	case h.chunked:
		err = c.readChunks(&body)
	case h.length >= 0:
		err = c.read(h.length, &body)
	default:
		return fmt.Errorf("an answer %d does not say how long it is", h.status)
	}
	if err != nil {
		return fmt.Errorf("read the body of a %d: %w", h.status, err)
	}
	if body.keep {
		c.examples[h.status] = string(body.kept)
	}
	if h.closes {
		c.close()
		c.closed++
	}
	return nil
}

// keeps tells whether the body of an answer is wanted as an example: of each status but those that are well.
func (c *connection) keeps(status int) bool {
	_, has := c.examples[status]
	return !has && status != 200 && status != 304
}

func (c *connection) readLine() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	c.received += int64(len(line))
	return bytes.TrimRight(line, "\r\n"), err
}

func (c *connection) readHead() (head, error) {
	h := head{length: -1}
	line, err := c.readLine()
	if err != nil {
		return h, err
	}
	const statusAt = len("HTTP/1.1 ")
	if !bytes.HasPrefix(line, []byte("HTTP/1.")) || len(line) < statusAt+3 {
		return h, fmt.Errorf("an answer begins with %q", line)
	}
	if h.status, err = strconv.Atoi(string(line[statusAt : statusAt+3])); err != nil {
		return h, fmt.Errorf("an answer begins with %q", line)
	}
	for {
		line, err := c.readLine()
		if err != nil || len(line) == 0 {
			return h, err
		}
		if err := c.readField(&h, line); err != nil {
			return h, err
		}
	}
}

// readField reads one line of a head. Only those that begin with letters of interest are looked at closely.
func (c *connection) readField(h *head, line []byte) error {
	if letter := line[0] | 0x20; letter != 'c' && letter != 't' && letter != 'x' {
		return nil
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		length, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || length < 0 {
			return fmt.Errorf("the content length is %q", value)
		}
		h.length = length
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		h.chunked = bytes.EqualFold(value, []byte("chunked"))
	case bytes.EqualFold(name, []byte("Connection")):
		h.closes = bytes.EqualFold(value, []byte("close"))
	case bytes.EqualFold(name, []byte("X-Cache")):
		count, ok := c.cache[string(value)]
		if !ok {
			count = new(int64)
			c.cache[string(value)] = count
		}
		*count++
	}
	return nil
}

// readChunks reads a chunked body with its trailer (RFC 9112, section 7.1).
func (c *connection) readChunks(body *sink) error {
	for {
		line, err := c.readLine()
		if err != nil {
			return err
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 31)
		if err != nil {
			return fmt.Errorf("a chunk of size %q", digits)
		}
		if size == 0 {
			return c.readTrailer()
		}
		if err := c.read(int64(size), body); err != nil {
			return err
		}
		if line, err = c.readLine(); err != nil || len(line) > 0 {
			return errors.Join(errors.New("a chunk does not end where it says"), err)
		}
	}
}

func (c *connection) readTrailer() error {
	for {
		line, err := c.readLine()
		if err != nil || len(line) == 0 {
			return err
		}
	}
}

// A sink takes a body, and keeps the beginning of it if it is told to.
type sink struct {
	keep bool
	kept []byte
}

// read reads so many bytes of a body.
func (c *connection) read(n int64, body *sink) error {
	if body.keep {
		beginning := make([]byte, min(n, int64(exampleSize-len(body.kept))))
		if _, err := io.ReadFull(c.reader, beginning); err != nil {
			return err
		}
		body.kept = append(body.kept, beginning...)
		n -= int64(len(beginning))
		c.received += int64(len(beginning))
	}
	discarded, err := c.reader.Discard(int(n))
	c.received += int64(discarded)
	return err
}
