package proxy

import (
	"io"

	"github.com/valyala/fasthttp"
)

// A body is a response body in two parts: the head, which concurrent requests share, and the tail. The HTTP library calls
// WriteTo with its output buffer, so a short answer is copied once and a long one never.
type body struct {
	head, tail []byte
	sending    *sending // nil: it is not counted
}

// WriteTo implements io.WriterTo.
func (b *body) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b.head)
	if err != nil {
		return int64(n), err
	}
	m, err := w.Write(b.tail)
	return int64(n + m), err
}

// Read implements io.Reader. It consumes what it returns: WriteTo then writes the rest.
func (b *body) Read(p []byte) (int, error) {
	n := copy(p, b.head)
	m := copy(p[n:], b.tail)
	b.head, b.tail = b.head[n:], b.tail[m:]
	if n+m == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n + m, nil
}

// Close implements io.Closer. The library calls it when the body has been sent, or is not needed: a connection that waits for its next
// request must not keep an answer in memory that the cache has dropped.
func (b *body) Close() error {
	if b.sending != nil {
		b.sending.end()
	}
	*b = body{}
	return nil
}

func (c *call) writeBody(r reply) {
	tail := c.scratch[:0]
	if r.tail != nil {
		tail = r.tail(tail, r.cacheStatus, c.id)
	}
	c.body = body{head: r.answer.Head(), tail: tail}
	if c.packs(r.answer) {
		c.body = body{head: r.answer.Packed(), tail: r.answer.AppendPacked(tail[len(tail):], tail)}
		setHeader(&c.http.Response.Header, fasthttp.HeaderContentEncoding, "gzip")
	}
	c.http.Response.SetBodyStream(&c.body, len(c.body.head)+len(c.body.tail))
}

// takeBody makes a long body that the HTTP library holds one of the call.
func (c *call) takeBody() {
	if response := &c.http.Response; !response.IsBodyStream() && len(response.Body()) > writeBuffer {
		c.body = body{head: response.SwapBody(nil)}
		response.SetBodyStream(&c.body, len(c.body.head))
	}
}

// holdBody counts the body while it is being sent, if it is long.
func (s *Server) holdBody(c *call) {
	if len(c.body.head) > writeBuffer && c.grant != nil {
		c.body.sending = s.sendings.begin(connectionOf(c.http).Conn, c.grant.Key.AccountID, c.body.head)
	}
}

// length returns the length of the response's body in bytes.
func (c *call) length() int {
	response := &c.http.Response
	if response.IsBodyStream() {
		return response.Header.ContentLength()
	}
	return len(response.Body())
}
