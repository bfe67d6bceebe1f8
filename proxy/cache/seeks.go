package cache

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

const (
	// maxSeeks is how many calls of seek.lua one pipeline contains at most.
	maxSeeks = 32
	// maxPipelines is how many run at a time: Redis executes one while the replies of the other are read.
	maxPipelines = 2
)

// seeks batches concurrent calls of seek.lua into pipelines. It needs no timer to collect them: calls that arrive while all
// pipelines are in flight form the next one, so a single call is not delayed, and a busy replica makes few round trips. The zero
// value has no calls.
type seeks struct {
	mu      sync.Mutex // guards waiting and running
	waiting []*seekCall
	running int
	runners sync.WaitGroup
	unused  sync.Pool // *seekCall
}

// A seekCall is one call of seek.lua. It is reused, unless its caller left before the reply arrived.
type seekCall struct {
	keys   []string
	token  string // of the lease, whose key is the last; "": it is not asked for
	copies int    // how many of the first keys may answer
	parts  int    // how many parts of a copy are enough; 0: all are needed
	anyway bool   // take the lease even if there are copies
	long   bool   // its caller has the turn to read long values

	left      atomic.Bool   // the caller is no longer waiting
	limit     *time.Timer   // of the caller
	done      chan struct{} // gets a value once the reply is there
	arguments []any         // of the command
	command   *redis.Cmd
}

// reads returns how many keys are read.
func (c *seekCall) reads() int {
	if c.token == "" {
		return len(c.keys)
	}
	return len(c.keys) - 1
}

// newCall returns a call without keys.
func (q *seeks) newCall() *seekCall {
	if c, ok := q.unused.Get().(*seekCall); ok {
		c.keys = c.keys[:0]
		return c
	}
	c := &seekCall{done: make(chan struct{}, 1), limit: time.NewTimer(time.Hour)}
	c.limit.Stop()
	return c
}

// release takes back a call.
func (q *seeks) release(c *seekCall) {
	if !c.left.Load() { // otherwise a pipeline may still have it
		c.command = nil
		q.unused.Put(c)
	}
}

// wait returns the reply to a call, or an error when its time is up. It does not return early when the caller leaves, because the reply may
// grant it the lease. After a pause of the process it checks once more, because replies may have arrived that have not been read yet. The
// timeout of the pipeline bounds the wait.
func (s *sharedStore) wait(c *seekCall, until time.Time) ([]any, error) {
	s.seeks.mu.Lock()
	s.seeks.waiting = append(s.seeks.waiting, c)
	if s.seeks.running < maxPipelines {
		s.seeks.running++
		s.seeks.runners.Go(s.sendSeeks)
	}
	s.seeks.mu.Unlock()
	defer c.limit.Stop()
	now := time.Now()
	for end, last := until.Add(-s.limits.lastLook), false; ; end, last = now.Add(s.limits.lastLook), true {
		c.limit.Reset(end.Sub(now))
		select {
		case <-c.done:
			return c.command.Slice()
		case <-c.limit.C:
		}
		if now = time.Now(); last && redisconn.Late(end, now) == 0 {
			c.left.Store(true)
			return nil, context.DeadlineExceeded
		}
	}
}

// sendSeeks sends calls until none waits.
func (s *sharedStore) sendSeeks() {
	var calls []*seekCall
	for {
		runtime.Gosched() // let runnable goroutines join the pipeline
		if calls = s.seeks.take(calls[:0]); len(calls) == 0 {
			return
		}
		s.send(calls)
		for _, c := range calls {
			c.done <- struct{}{}
		}
	}
}

// take appends the calls of the next pipeline. If none waits, it returns none, and its caller ends.
func (q *seeks) take(calls []*seekCall) []*seekCall {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(c *seekCall) bool { return c.left.Load() })
	if len(q.waiting) == 0 {
		q.running--
		return nil
	}
	n := min(len(q.waiting), maxSeeks)
	calls = append(calls, q.waiting[:n]...)
	q.waiting = slices.Delete(q.waiting, 0, n)
	return calls
}

// seekScript holds the arguments that all calls have in common.
type seekScript struct{ hash, source, held, frames, longest any }

// send makes calls by the hash of the script, and repeats with its source those that reach a server without it.
func (s *sharedStore) send(calls []*seekCall) {
	// A caller stops waiting when its own time is up. None has more time than this.
	ctx, cancel := context.WithTimeout(context.Background(), s.limits.patience)
	defer cancel()
	s.pipeline(ctx, "evalsha", s.script.hash, calls)
	var unknown []*seekCall
	for _, c := range calls {
		if err := c.command.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) > 0 {
		s.pipeline(ctx, "eval", s.script.source, unknown)
	}
}

// pipeline makes calls in one round trip.
func (s *sharedStore) pipeline(ctx context.Context, verb, script any, calls []*seekCall) {
	for _, c := range calls {
		s.prepare(ctx, verb, script, c)
	}
	if len(calls) == 1 {
		_ = s.client.Process(ctx, calls[0].command) // the error is in the command
		return
	}
	pipe := s.client.Pipeline()
	for _, c := range calls {
		_ = pipe.Process(ctx, c.command)
	}
	redisconn.Exec(ctx, pipe)
}

// prepare builds the command of a call. Arguments are pointers where a value would cause an allocation.
func (s *sharedStore) prepare(ctx context.Context, verb, script any, c *seekCall) {
	c.arguments = append(c.arguments[:0], verb, script, len(c.keys))
	first := len(c.arguments)
	for i := range c.keys {
		c.arguments = append(c.arguments, &c.keys[i])
	}
	c.arguments = append(c.arguments, &c.token, s.script.held, c.anyway, c.copies, c.parts, s.script.frames, s.script.longest)
	c.command = redis.NewCmd(ctx, c.arguments...)
	c.command.SetFirstKeyPos(int8(first))
}
