package proxy

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

// An allowance is what the X-RateLimit headers show: what is left of a limit, and when that resets, in seconds since 1970.
type allowance struct {
	limit, remaining int
	reset            int64
}

// allowance returns the daily allowance of the request's account, zeros if it has none.
func (x *exchange) allowance() allowance {
	a := allowance{reset: nextUTCMidnight(x.allowanceTime()).Unix()}
	if x.grant != nil {
		a.limit = x.grant.Plan.RequestsPerDay
		a.remaining = max(0, a.limit-x.grant.Usage.RequestsToday)
	}
	return a
}

// allowanceTime is the time of the request by the clock of the counters, if they were read.
func (x *exchange) allowanceTime() time.Time {
	if x.grant != nil && !x.grant.Usage.At.IsZero() {
		return x.grant.Usage.At
	}
	return x.started
}

func (a allowance) set(header *fasthttp.ResponseHeader) {
	var buffer [20]byte
	set := func(name string, n int64) { header.SetCanonical([]byte(name), strconv.AppendInt(buffer[:0], n, 10)) }
	set("X-Ratelimit-Limit", int64(a.limit))
	set("X-Ratelimit-Remaining", int64(a.remaining))
	set("X-Ratelimit-Reset", a.reset)
}

// nextUTCMidnight is when the daily allowances reset (spec: Limits 1).
func nextUTCMidnight(now time.Time) time.Time {
	const day = 24 * 60 * 60
	return time.Unix((now.Unix()/day+1)*day, 0).UTC()
}
