package proxy

import (
	"bytes"
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

// writeBody writes the head and the tail into the response's own buffer.
func (c *call) writeBody(r reply) {
	response := &c.wire.Response
	tail := c.scratch[:0]
	if r.tail != nil {
		tail = r.tail(tail, r.word, c.id)
	}
	body := response.SwapBody(nil)[:0]
	if r.answer.Len() < compressFrom || !c.takesGzip() {
		response.SwapBody(r.answer.Append(body, tail))
		return
	}
	response.SwapBody(r.answer.AppendGzip(body, tail))
	setHeader(&response.Header, fasthttp.HeaderContentEncoding, "gzip")
}

// knows reports whether the client has this answer already (RFC 9110, If-None-Match). Tags are compared weakly: what
// follows the head is another one each time.
func (c *call) knows(tag string) bool {
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

// takesGzip reports whether the client accepts gzip (RFC 9110, Accept-Encoding).
func (c *call) takesGzip() bool {
	accepted := false
	for _, line := range c.wire.Request.Header.PeekAll(fasthttp.HeaderAcceptEncoding) {
		for member := range bytes.SplitSeq(line, []byte(",")) {
			coding, weight, _ := bytes.Cut(member, []byte(";"))
			switch name := bytes.TrimSpace(coding); {
			case bytes.EqualFold(name, []byte("gzip")), bytes.EqualFold(name, []byte("x-gzip")):
				return !isZero(weight)
			case string(name) == "*":
				accepted = !isZero(weight)
			}
		}
	}
	return accepted
}

// isZero reports whether a weight such as q=0.0 refuses.
func isZero(weight []byte) bool {
	_, number, found := bytes.Cut(weight, []byte("="))
	return found && len(bytes.Trim(bytes.TrimSpace(number), "0.")) == 0
}

// wantsLive reports whether the client will have no copy (RFC 9111, no-cache).
func (c *call) wantsLive() bool {
	for _, line := range c.wire.Request.Header.PeekAll(fasthttp.HeaderCacheControl) {
		for directive := range bytes.SplitSeq(line, []byte(",")) {
			if bytes.EqualFold(bytes.TrimSpace(directive), []byte("no-cache")) {
				return true
			}
		}
	}
	return false
}
