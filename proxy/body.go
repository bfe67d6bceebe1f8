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

func (x *exchange) writeBody(r reply) {
	tail := x.scratch[:0]
	if r.tail != nil {
		tail = r.tail(tail, r.cacheStatus, x.id)
	}
	x.body = body{head: r.answer.Head(), tail: tail}
	if x.packs(r.answer) {
		x.body = body{head: r.answer.Packed(), tail: r.answer.AppendPacked(tail[len(tail):], tail)}
		setHeader(&x.http.Response.Header, fasthttp.HeaderContentEncoding, "gzip")
	}
	x.http.Response.SetBodyStream(&x.body, len(x.body.head)+len(x.body.tail))
}

// takeBody makes a long body that the HTTP library holds one of the exchange.
func (x *exchange) takeBody() {
	if response := &x.http.Response; !response.IsBodyStream() && len(response.Body()) > writeBuffer {
		x.body = body{head: response.SwapBody(nil)}
		response.SetBodyStream(&x.body, len(x.body.head))
	}
}

// holdBody counts the body while it is being sent, if it is long.
func (s *Server) holdBody(x *exchange) {
	if len(x.body.head) > writeBuffer && x.grant != nil {
		x.body.sending = s.sendings.begin(connectionOf(x.http).Conn, x.grant.Key.AccountID, x.body.head)
	}
}

// length returns the length of the response's body in bytes.
func (x *exchange) length() int {
	response := &x.http.Response
	if response.IsBodyStream() {
		return response.Header.ContentLength()
	}
	return len(response.Body())
}
