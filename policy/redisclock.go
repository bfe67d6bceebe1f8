package policy

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// A redisClock estimates the clock of Redis, which decides the windows of all replicas, from the last reply. The estimate is
// never behind Redis, and ahead of it by at most the duration of that round trip. While Redis is down, the fallback uses it to
// continue the same windows; while Redis is up, it expresses deadlines in Redis' own time. It counts the time that passes, so a wall clock
// that is set meanwhile does not move it: the ledger would enter a later window and stay there, and count today's requests in it. While the
// machine is suspended, no time passes by that count: the estimate is behind until the next reply, and what expires for that is sent again.
type redisClock struct {
	now    func() time.Time // of this process
	begun  time.Time        // by now
	offset atomic.Int64     // nanoseconds by which Redis is ahead of this process
}

func newRedisClock(now func() time.Time) *redisClock { return &redisClock{now: now, begun: now()} }

// steady returns an instant of this process by the wall clock of the beginning and the time that has passed since.
func (c *redisClock) steady(t time.Time) time.Time { return c.begun.Add(t.Sub(c.begun)) }

// time returns the estimated time of Redis.
func (c *redisClock) time() time.Time { return c.steady(c.now()).Add(time.Duration(c.offset.Load())) }

// expiryMargin is a safety margin: a charge expires this long before its caller stops waiting. It covers the way back of the
// reply and the error of the clock.
const expiryMargin = 50 * time.Millisecond

// deadline returns when a script that is sent now, and waited for until ctx ends, expires: in microseconds since 1970 by the
// clock of Redis. If Redis was frozen and runs the script only later, the charge has been made locally by then, and the
// script must do nothing.
func (c *redisClock) deadline(ctx context.Context) int64 {
	end, _ := ctx.Deadline()
	return c.time().Add(time.Until(end) - expiryMargin).UnixMicro()
}

// read takes the time, with which each script's reply begins, and sets the clock by it. A reply that holds only the time means
// errExpired.
func (c *redisClock) read(reply []int64, sent time.Time) (now time.Time, remaining []int64, err error) {
	if len(reply) < 2 {
		return time.Time{}, nil, fmt.Errorf("reply of Redis has %d numbers and lacks the time", len(reply))
	}
	now = time.Unix(reply[0], reply[1]*int64(time.Microsecond))
	c.offset.Store(int64(now.Sub(c.steady(sent))))
	if len(reply) == 2 {
		return now, nil, errExpired
	}
	return now, reply[2:], nil
}
