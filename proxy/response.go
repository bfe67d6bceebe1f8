package proxy

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"sara/proxy/cache"
	"sara/proxy/media"
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

// send answers a request with a reply, or with 304 if the client has it already.
func (s *Server) send(x *exchange, r reply) {
	response := &x.http.Response
	tag := r.answer.ETag()
	if x.hasCurrent(tag) {
		x.http.SetStatusCode(fasthttp.StatusNotModified)
	} else {
		x.http.SetStatusCode(fasthttp.StatusOK)
		x.writeBody(r)
		s.holdBody(x)
	}
	x.setHeaders(r.cacheStatus, r.maxAge, x.allowance())
	setHeader(&response.Header, "Etag", tag)
	if r.format != media.JSON {
		x.setFormat(r)
	}
}

// setFormat sets the headers of a body that is not JSON.
func (x *exchange) setFormat(r reply) {
	header := &x.http.Response.Header
	header.SetContentType(r.format.ContentType())
	for _, f := range r.fields {
		header.Add(f.Name, f.Value) // a name may repeat
	}
	x.format = r.format
}

// hasCurrent reports whether the client has this answer already (RFC 9110, If-None-Match). Tags are compared weakly, because
// they do not cover the tail.
func (x *exchange) hasCurrent(tag string) bool {
	if !x.header.conditional {
		return false
	}
	for _, line := range x.http.Request.Header.PeekAll(fasthttp.HeaderIfNoneMatch) {
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
func (x *exchange) setHeaders(cacheStatus string, maxAge int, left allowance) {
	header := x.commonHeader()
	header.SetContentType(media.JSON.ContentType())
	setHeader(header, "X-Cache", cacheStatus)
	var buffer [64]byte
	header.SetCanonical([]byte(fasthttp.HeaderCacheControl), x.appendCacheControl(buffer[:0], maxAge))
	if x.route.Open && x.route.Operation == "" {
		setHeader(header, fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
		return
	}
	if x.route.table == nil {
		setHeader(header, fasthttp.HeaderVary, "Authorization, Accept-Encoding")
	} else {
		setHeader(header, fasthttp.HeaderVary, "Authorization, Accept, Accept-Encoding")
	}
	if x.route.Path != pathMalformed { // whose account is not known: zeros would read as an allowance that is used up
		left.set(header)
	}
}

// commonHeader returns the header of the answer, with what every one has.
func (x *exchange) commonHeader() *fasthttp.ResponseHeader {
	header := &x.http.Response.Header
	setHeader(header, "X-Request-Id", x.id)
	setHeader(header, "X-Content-Type-Options", "nosniff")
	return header
}

// setHeader sets a header whose name is in canonical form already, which saves normalizing it.
func setHeader(header *fasthttp.ResponseHeader, name, value string) {
	header.SetCanonical([]byte(name), []byte(value)) // the library copies: neither conversion allocates
}

func (x *exchange) appendCacheControl(dst []byte, maxAge int) []byte {
	switch {
	case maxAge == noStore:
		return append(dst, "private, no-store"...)
	case x.route.Open && x.grant == nil:
		dst = append(dst, "public, max-age="...)
	default:
		dst = append(dst, "private, max-age="...)
	}
	return strconv.AppendInt(dst, int64(maxAge), 10)
}
