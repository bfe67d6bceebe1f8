package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sara/proxy/cache"
	"sara/translate"
)

// The cache words (spec: meta.cache). A copy that is served for want of anything newer is a hit too.
const (
	cacheHit    = "hit"
	cacheMiss   = "miss"
	cacheBypass = "bypass" // no response cache stands behind the answer, or the client went past it
)

// A reply is what a handler answers with.
type reply struct {
	answer      *cache.Answer // but for its tail, which differs from one request to the next
	tail        func(dst []byte, cacheStatus, requestID string) []byte
	cacheStatus string
	maxAge      int // seconds that a client may keep it, mustRevalidate or noStore
}

// reply makes the reply of an answer with figures. A client may keep it for what is left of its life.
func (c *call) reply(answer *cache.Answer, ttl time.Duration, cacheStatus string) reply {
	left := min(ttl, ttl-c.started.Sub(answer.Filled()))
	return reply{answer: answer, tail: translate.AppendTail, cacheStatus: cacheStatus, maxAge: max(mustRevalidate, int(left/time.Second))}
}

// compressFrom is the shortest body that compressing makes a difference to.
const compressFrom = 1 << 10

// send answers with what a handler returned.
func (s *Server) send(c *call, r reply) {
	response := &c.http.Response
	tag := r.answer.ETag()
	if c.hasCurrent(tag) {
		c.http.SetStatusCode(fasthttp.StatusNotModified)
	} else {
		c.http.SetStatusCode(fasthttp.StatusOK)
		c.writeBody(r)
	}
	s.setHeaders(c, r.cacheStatus, r.maxAge)
	setHeader(&response.Header, "Etag", tag)
}

// writeBody gives the head and the tail to the response.
func (c *call) writeBody(r reply) {
	tail := c.scratch[:0]
	if r.tail != nil {
		tail = r.tail(tail, r.cacheStatus, c.id)
	}
	c.body = body{r.answer.Head(), tail}
	if len(c.body.head) >= compressFrom && c.header.gzip {
		c.body = body{r.answer.Packed(), r.answer.AppendPacked(tail[len(tail):], tail)}
		setHeader(&c.http.Response.Header, fasthttp.HeaderContentEncoding, "gzip")
	}
	c.http.Response.SetBodyStream(&c.body, len(c.body.head)+len(c.body.tail))
}

// length returns the length of the response's body in bytes.
func (c *call) length() int {
	response := &c.http.Response
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
func (c *call) hasCurrent(tag string) bool {
	if !c.header.conditional {
		return false
	}
	for _, line := range c.http.Request.Header.PeekAll(fasthttp.HeaderIfNoneMatch) {
		for member := range bytes.SplitSeq(line, []byte(",")) {
			member = bytes.TrimSpace(member)
			if string(member) == "*" || string(bytes.TrimPrefix(member, []byte("W/"))) == strings.TrimPrefix(tag, "W/") {
				return true
			}
		}
	}
	return false
}

const jsonType = "application/json; charset=utf-8"

// What a client may keep, beside a number of seconds.
const (
	mustRevalidate = 0  // only if it asks each time whether it still holds
	noStore        = -1 // nothing
)

// setHeaders sets what every answer carries. Answers are kept out of shared caches: the same URL is another answer under
// another key, and an error is over at any moment. Only what needs no key is for everybody.
func (s *Server) setHeaders(c *call, cacheStatus string, maxAge int) {
	header := &c.http.Response.Header
	header.SetContentType(jsonType)
	setHeader(header, "X-Request-Id", c.id)
	setHeader(header, "X-Content-Type-Options", "nosniff")
	setHeader(header, "X-Cache", cacheStatus)
	var buffer [64]byte
	header.SetCanonical([]byte(fasthttp.HeaderCacheControl), c.appendCacheControl(buffer[:0], maxAge))
	if c.route.Open {
		setHeader(header, fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
		return
	}
	setHeader(header, fasthttp.HeaderVary, "Authorization, Accept-Encoding")
	s.setAllowance(c)
}

// setHeader sets a header whose name is in canonical form, which saves making it so.
func setHeader(header *fasthttp.ResponseHeader, name, value string) {
	header.SetCanonical([]byte(name), []byte(value)) // copied there: neither conversion allocates
}

func (c *call) appendCacheControl(dst []byte, maxAge int) []byte {
	switch {
	case maxAge == noStore:
		return append(dst, "private, no-store"...)
	case c.route.Open:
		dst = append(dst, "public, max-age="...)
	default:
		dst = append(dst, "private, max-age="...)
	}
	return strconv.AppendInt(dst, int64(maxAge), 10)
}

// setAllowance sets the daily allowance of the account: zeros when there is no account to speak of.
func (s *Server) setAllowance(c *call) {
	limit, used, now := 0, 0, c.started
	if c.grant != nil {
		limit, used = c.grant.Plan.RequestsPerDay, c.grant.Usage.RequestsToday
		if !c.grant.Usage.At.IsZero() {
			now = c.grant.Usage.At
		}
	}
	setRateLimit(c, limit, max(0, limit-used), nextUTCMidnight(now))
}

func setRateLimit(c *call, limit, remaining int, reset time.Time) {
	header := &c.http.Response.Header
	var buffer [20]byte
	set := func(name string, n int64) { header.SetCanonical([]byte(name), strconv.AppendInt(buffer[:0], n, 10)) }
	set("X-Ratelimit-Limit", int64(limit))
	set("X-Ratelimit-Remaining", int64(remaining))
	set("X-Ratelimit-Reset", reset.Unix())
}

// nextUTCMidnight is when daily allowances begin anew (spec: Limits 1).
func nextUTCMidnight(now time.Time) time.Time {
	const day = 24 * 60 * 60
	return time.Unix((now.Unix()/day+1)*day, 0).UTC()
}

// rows is the data of every list.
type rows[T any] struct {
	Rows []T `json:"rows"`
}

// envelope makes the reply of an endpoint that has no response cache. A client may keep it if it asks each time whether it
// still holds.
func envelope(data, meta any) reply {
	head := appendJSON([]byte(`{"success":true,"data":`), data)
	head = append(head, `,"meta":`...)
	head = bytes.TrimSuffix(appendJSON(head, meta), []byte("}"))
	if head[len(head)-1] != '{' {
		head = append(head, ',')
	}
	return reply{answer: cache.NewAnswer(append(head, `"request_id":"`...), time.Time{}), cacheStatus: cacheBypass, tail: appendRequestID}
}

func appendRequestID(dst []byte, _, requestID string) []byte {
	return append(append(dst, requestID...), `"}}`...)
}

func appendJSON(dst []byte, value any) []byte {
	buffer := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("BUG: the payload %T does not marshal: %v", value, err))
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}

// each maps a list; an empty one stays a list, not null.
func each[From, To any](list []From, convert func(From) To) []To {
	converted := make([]To, len(list))
	for i := range list {
		converted[i] = convert(list[i])
	}
	return converted
}

// timestamp is how instants are written (spec: ISO 8601, UTC).
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// optional is a string that is null when it is empty.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
