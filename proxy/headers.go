package proxy

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

const jsonType = "application/json; charset=utf-8"

// setHeaders sets what every answer carries. Answers are kept out of shared caches: the same URL is another answer under
// another key, and an error is over at any moment.
func (s *Server) setHeaders(c *call, cache string) {
	header := &c.wire.Response.Header
	header.SetContentType(jsonType)
	header.Set("X-Request-Id", c.id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Cache", cache)
	header.Set(fasthttp.HeaderCacheControl, "private, no-store")
	if !c.route.Open {
		header.Set(fasthttp.HeaderVary, fasthttp.HeaderAuthorization)
		s.setAllowance(c)
	}
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
	header.Set("X-RateLimit-Limit", strconv.Itoa(limit))
	header.Set("X-RateLimit-Remaining", strconv.Itoa(remaining))
	header.Set("X-RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10))
}

// nextUTCMidnight is when daily allowances begin anew (spec: Limits 1).
func nextUTCMidnight(now time.Time) time.Time {
	year, month, day := now.UTC().Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
}

// send answers with what a handler returned.
func (s *Server) send(c *call, answer reply) {
	s.setHeaders(c, answer.cache)
	if c.route.Open {
		c.wire.Response.Header.Set(fasthttp.HeaderCacheControl, "public, max-age=300")
	}
	c.wire.SetStatusCode(fasthttp.StatusOK)
	c.wire.Response.SetBodyRaw(answer.body(nil, c.id, answer.cache))
}
