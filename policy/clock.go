package policy

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// A serverClock is the clock of Redis, which decides the windows of all replicas, as far as it is known from the last
// answer: never behind it, and ahead of it by the time of that round trip at most. So the windows of the time without Redis
// are those of the time with it, and Redis can be told by its own clock until when a charge is still wanted.
type redisClock struct {
	now   func() time.Time // of this process
	ahead atomic.Int64     // nanoseconds by which Redis is ahead of this process
}

// time returns the time by Redis' clock.
func (c *redisClock) time() time.Time { return c.now().Add(time.Duration(c.ahead.Load())) }

// voidBefore is how long before nobody waits any more a question is void: longer than an answer is on its way, and than this
// clock is ahead.
const expiryMargin = 50 * time.Millisecond

// deadline is when, in microseconds since 1970 of Redis' clock, a question that is asked now and waited for until ctx ends
// is void. A charge that Redis gets to only then, because it was frozen, is not to be carried out: it is made locally.
func (c *redisClock) deadline(ctx context.Context) int64 {
	end, _ := ctx.Deadline()
	return c.time().Add(time.Until(end) - expiryMargin).UnixMicro()
}

// read takes the time off the answer of a script, which begins with it, and sets the clock by it. An answer of the time
// alone is errLate.
func (c *redisClock) read(answer []int64, asked time.Time) (now time.Time, rest []int64, err error) {
	if len(answer) < 2 {
		return time.Time{}, nil, fmt.Errorf("the shared counter answers %d numbers, and not the time", len(answer))
	}
	now = time.Unix(answer[0], answer[1]*int64(time.Microsecond))
	c.ahead.Store(int64(now.Sub(asked)))
	if len(answer) == 2 {
		return now, nil, errExpired
	}
	return now, answer[2:], nil
}
