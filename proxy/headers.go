package proxy

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

const jsonType = "application/json; charset=utf-8"

// What a client may keep, beside a number of seconds.
const (
	askAlways = 0  // only if it asks each time whether it still holds
	neverKept = -1 // nothing
)

// setHeaders sets what every answer carries. Answers are kept out of shared caches: the same URL is another answer under
// another key, and an error is over at any moment. Only what needs no key is for everybody.
func (s *Server) setHeaders(c *call, word string, maxAge int) {
	header := &c.wire.Response.Header
	header.SetContentType(jsonType)
	setHeader(header, "X-Request-Id", c.id)
	setHeader(header, "X-Content-Type-Options", "nosniff")
	setHeader(header, "X-Cache", word)
	var buffer [64]byte
	header.SetCanonical([]byte(fasthttp.HeaderCacheControl), c.appendKeeping(buffer[:0], maxAge))
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

func (c *call) appendKeeping(dst []byte, maxAge int) []byte {
	switch {
	case maxAge == neverKept:
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
	header := &c.wire.Response.Header
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
