package proxy

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

const jsonType = "application/json; charset=utf-8"

// setHeaders sets what every answer carries. Answers under a key are kept out of shared caches: the same URL is another
// answer under another key.
func (s *Server) setHeaders(c *call, cache string) {
	header := &c.wire.Response.Header
	header.SetContentType(jsonType)
	header.Set("X-Request-Id", c.id)
	header.Set("X-Content-Type-Options", "nosniff")
	if c.route.Open {
		header.Set(fasthttp.HeaderCacheControl, "public, max-age=300")
		return
	}
	header.Set(fasthttp.HeaderCacheControl, "private, no-store")
	header.Set(fasthttp.HeaderVary, fasthttp.HeaderAuthorization)
	header.Set("X-Cache", cache)
	allowance := 0
	if c.grant != nil {
		allowance = c.grant.Plan.RequestsPerDay
	}
	header.Set("X-RateLimit-Limit", strconv.Itoa(allowance))
	header.Set("X-RateLimit-Remaining", strconv.Itoa(allowance))
	header.Set("X-RateLimit-Reset", strconv.FormatInt(nextUTCMidnight(c.started).Unix(), 10))
}

// nextUTCMidnight is when daily allowances begin anew (spec: Limits 1).
func nextUTCMidnight(now time.Time) time.Time {
	year, month, day := now.UTC().Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
}

// send answers with what a handler returned.
func (s *Server) send(c *call, answer reply) {
	s.setHeaders(c, answer.cache)
	c.wire.SetStatusCode(fasthttp.StatusOK)
	c.wire.Response.SetBodyRaw(answer.body(nil, c.id, answer.cache))
}
