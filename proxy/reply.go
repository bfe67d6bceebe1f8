package proxy

import (
	"bytes"
	"io"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sara/proxy/cache"
	"sara/translate"
)

// The cache words (spec: meta.cache). A copy that is served for want of anything newer is a hit too.
const (
	wordHit    = "hit"
	wordMiss   = "miss"
	wordBypass = "bypass" // no response cache stands behind the answer, or the client went past it
)

// A reply is what a handler answers with.
type reply struct {
	answer *cache.Answer // but for its tail, which differs from one request to the next
	tail   func(dst []byte, word, requestID string) []byte
	word   string
	maxAge int // seconds that a client may keep it, askAlways or neverKept
}

// reply makes the reply of an answer with figures. A client may keep it for what is left of its life.
func (c *call) reply(answer *cache.Answer, life time.Duration, word string) reply {
	left := min(life, life-c.started.Sub(answer.Filled()))
	return reply{answer: answer, tail: translate.AppendTail, word: word, maxAge: max(askAlways, int(left/time.Second))}
}

// compressFrom is the shortest body that compressing makes a difference to.
const compressFrom = 1 << 10

// send answers with what a handler returned.
func (s *Server) send(c *call, r reply) {
	response := &c.wire.Response
	tag := r.answer.ETag()
	if c.knows(tag) {
		c.wire.SetStatusCode(fasthttp.StatusNotModified)
	} else {
		c.wire.SetStatusCode(fasthttp.StatusOK)
		c.writeBody(r)
	}
	s.setHeaders(c, r.word, r.maxAge)
	setHeader(&response.Header, "Etag", tag)
}

// writeBody gives the head and the tail to the response.
func (c *call) writeBody(r reply) {
	tail := c.scratch[:0]
	if r.tail != nil {
		tail = r.tail(tail, r.word, c.id)
	}
	c.body = body{r.answer.Head(), tail}
	if len(c.body.head) >= compressFrom && c.fields.gzip {
		c.body = body{r.answer.Packed(), r.answer.AppendPacked(tail[len(tail):], tail)}
		setHeader(&c.wire.Response.Header, fasthttp.HeaderContentEncoding, "gzip")
	}
	c.wire.Response.SetBodyStream(&c.body, len(c.body.head)+len(c.body.tail))
}

// length returns the length of the response's body in bytes.
func (c *call) length() int {
	response := &c.wire.Response
	if response.IsBodyStream() {
		return response.Header.ContentLength()
	}
	return len(response.Body())
}

// A body is what a response is made of: the head, which others send at the same time, and the tail. The HTTP library has
// it write itself to where the whole response is gathered, so that an answer is copied once, and a long one not at all.
type body struct{ head, tail []byte }

// WriteTo implements io.WriterTo.
func (b *body) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b.head)
	if err != nil {
		return int64(n), err
	}
	m, err := w.Write(b.tail)
	return int64(n + m), err
}

// Read implements io.Reader. What was read is not written any more.
func (b *body) Read(p []byte) (int, error) {
	n := copy(p, b.head)
	m := copy(p[n:], b.tail)
	b.head, b.tail = b.head[n:], b.tail[m:]
	if n+m == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n + m, nil
}

// knows reports whether the client has this answer already (RFC 9110, If-None-Match). Tags are compared weakly: what
// follows the head is another one each time.
func (c *call) knows(tag string) bool {
	if !c.fields.conditional {
		return false
	}
	for _, line := range c.wire.Request.Header.PeekAll(fasthttp.HeaderIfNoneMatch) {
		for member := range bytes.SplitSeq(line, []byte(",")) {
			member = bytes.TrimSpace(member)
			if string(member) == "*" || string(bytes.TrimPrefix(member, []byte("W/"))) == strings.TrimPrefix(tag, "W/") {
				return true
			}
		}
	}
	return false
}
