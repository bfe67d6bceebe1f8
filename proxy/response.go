package proxy

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sara/proxy/cache"
	"sara/proxy/media"
	"sara/translate"
)

// The cache statuses (spec: meta.cache). A stale copy is a hit too.
const (
	cacheHit    = "hit"
	cacheMiss   = "miss"
	cacheBypass = "bypass" // the endpoint has no response cache, or the client sent no-cache
)

// A reply is the success that a handler returns.
type reply struct {
	answer      *cache.Answer                                          // the body up to the tail, shared by requests
	tail        func(dst []byte, cacheStatus, requestID string) []byte // appends the rest, which differs between requests
	cacheStatus string
	maxAge      int           // seconds that a client may keep it, mustRevalidate or noStore
	format      media.Format  // of the body
	fields      []cache.Field // of the header, instead of the meta
}

// reply returns the reply of a report. A client may keep it as long as it stays fresh.
func (c *call) reply(answer *cache.Answer, fresh time.Duration, cacheStatus string) reply {
	return reply{answer: answer, tail: translate.AppendTail, cacheStatus: cacheStatus, maxAge: max(mustRevalidate, int(fresh/time.Second))}
}

// send answers a request with a reply, or with 304 if the client has it already.
func (s *Server) send(c *call, r reply) {
	response := &c.http.Response
	tag := r.answer.ETag()
	if c.hasCurrent(tag) {
		c.http.SetStatusCode(fasthttp.StatusNotModified)
	} else {
		c.http.SetStatusCode(fasthttp.StatusOK)
		c.writeBody(r)
		s.holdBody(c)
	}
	c.setHeaders(r.cacheStatus, r.maxAge, c.allowance())
	setHeader(&response.Header, "Etag", tag)
	if r.format != media.JSON {
		c.setFormat(r)
	}
}

// setFormat sets the headers of a body that is not JSON.
func (c *call) setFormat(r reply) {
	header := &c.http.Response.Header
	header.SetContentType(r.format.ContentType())
	for _, f := range r.fields {
		header.Add(f.Name, f.Value) // a name may repeat
	}
	c.format = r.format
}

// hasCurrent reports whether the client has this answer already (RFC 9110, If-None-Match). Tags are compared weakly, because
// they do not cover the tail.
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

// Values of maxAge that are not a number of seconds.
const (
	mustRevalidate = 0  // the client may keep the answer, but must revalidate it before each use
	noStore        = -1 // the client must not keep the answer
)

// setHeaders sets the headers of every answer of the API. Shared caches must not keep answers: another key gets another answer at the
// same URL, and an error may end at any moment. Only routes that need no key are public.
func (c *call) setHeaders(cacheStatus string, maxAge int, left allowance) {
	header := c.commonHeader()
	header.SetContentType(media.JSON.ContentType())
	setHeader(header, "X-Cache", cacheStatus)
	var buffer [64]byte
	header.SetCanonical([]byte(fasthttp.HeaderCacheControl), c.appendCacheControl(buffer[:0], maxAge))
	if c.route.Open && c.route.Operation == "" {
		setHeader(header, fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
		return
	}
	if c.route.table == nil {
		setHeader(header, fasthttp.HeaderVary, "Authorization, Accept-Encoding")
	} else {
		setHeader(header, fasthttp.HeaderVary, "Authorization, Accept, Accept-Encoding")
	}
	if c.route.Path != pathMalformed { // whose account is not known: zeros would read as an allowance that is used up
		left.set(header)
	}
}

// commonHeader returns the header of the answer, with what every one has.
func (c *call) commonHeader() *fasthttp.ResponseHeader {
	header := &c.http.Response.Header
	setHeader(header, "X-Request-Id", c.id)
	setHeader(header, "X-Content-Type-Options", "nosniff")
	return header
}

// setHeader sets a header whose name is in canonical form already, which saves normalizing it.
func setHeader(header *fasthttp.ResponseHeader, name, value string) {
	header.SetCanonical([]byte(name), []byte(value)) // the library copies: neither conversion allocates
}

func (c *call) appendCacheControl(dst []byte, maxAge int) []byte {
	switch {
	case maxAge == noStore:
		return append(dst, "private, no-store"...)
	case c.route.Open && c.grant == nil:
		dst = append(dst, "public, max-age="...)
	default:
		dst = append(dst, "private, max-age="...)
	}
	return strconv.AppendInt(dst, int64(maxAge), 10)
}
