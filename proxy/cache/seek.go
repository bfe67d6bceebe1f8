package cache

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/proxy/spans"
)

//go:embed script/seek.lua
var seekLua string

// errReply means that a reply is not one of seek.lua.
var errReply = errors.New("the reply of Redis has another form")

// sought is what seek finds.
type sought struct {
	entry, beside *Entry // the newest that answers the lookup, and that of the query beside it; nil: none
	token         string // of the lease; "": it was not taken
	ok            bool   // Redis answered
}

// look is the first look of a flight into Redis, which takes the lease if there is nothing.
func (s *sharedStore) look(ctx context.Context, l *lookup, beside *candidate) sought {
	ctx, span := spans.StartCall(ctx, "read Redis")
	defer span.End()
	return s.seek(ctx, l, beside, s.limits.lookUp, false)
}

// seek reads the copies of a lookup and takes the lease of its fill, in one command. It takes the lease only if no copy can answer, or inAnyCase.
func (s *sharedStore) seek(ctx context.Context, l *lookup, beside *candidate, limit time.Duration, inAnyCase bool) (found sought) {
	copies := l.redisKeys(beside)
	keys := append([]string{leaseKey(l)}, copies...)
	along := s.along && l.Along != nil && l.Along.Key != ""
	if along {
		keys = append(keys, l.Along.Key)
	}
	token := rand.Text()
	var values [][]byte
	found.ok = s.try(ctx, limit, func(ctx context.Context) error {
		reply, err := s.call(ctx, keys, token, s.limits.held.Milliseconds(), 1+len(l.others), longestAlong, inAnyCase)
		if err != nil || len(reply) != len(keys) {
			return cmp.Or(err, errReply)
		}
		if values, err = s.valuesOf(ctx, keys[1:], reply[1:]); err != nil {
			return err
		}
		if refused, ok := reply[0].(string); ok {
			return errors.New(refused)
		}
		if reply[0] == int64(1) {
			found.token = token
		}
		return nil
	})
	if values == nil {
		return found
	}
	if along {
		l.Along.Value, l.Along.Read = values[len(copies)], true
	}
	found.entry, found.beside = s.chooseBoth(l, beside, values)
	return found
}

// valuesOf returns the values of keys in a reply of seek.lua, and reads those that are long.
func (s *sharedStore) valuesOf(ctx context.Context, keys []string, reply []any) (values [][]byte, err error) {
	values = make([][]byte, len(keys))
	for i, value := range reply {
		switch value := value.(type) {
		case string:
			values[i] = bytesOf(value)
		case int64:
			if values[i], err = s.client.Get(ctx, keys[i]).Bytes(); err != nil && !errors.Is(err, redis.Nil) { // it may have expired
				return nil, err
			}
		}
	}
	return values, nil
}

const (
	// longestAlong is how many bytes a value has at most that a pipeline of seeks returns. What is longer is read for its request alone, over
	// another connection, so that one request for many rows does not hold up those that wait for the same pipeline.
	longestAlong = 64 << 10
	// maxSeeks is how many calls of seek.lua one pipeline has.
	maxSeeks = 32
	// maxPipelines is how many run at a time: Redis executes one while the replies of the other are read.
	maxPipelines = 2
)

// seeks sends the calls of seek.lua that wait together in one pipeline. It needs no timer to collect them: calls that arrive while all
// pipelines are under way are the next one, so that a single call is not delayed, and a busy replica makes few round trips. The zero
// value has no call.
type seeks struct {
	mu      sync.Mutex // guards waiting and running
	waiting []*seekCall
	running int
	runners sync.WaitGroup
}

// A seekCall is one call of seek.lua.
type seekCall struct {
	ctx       context.Context // of the caller, who may have left
	keys      []string
	arguments []any
	done      chan struct{} // closed when the following are set
	reply     []any
	err       error
}

// call calls seek.lua, and returns its reply. It returns when ctx ends, too.
func (s *sharedStore) call(ctx context.Context, keys []string, arguments ...any) ([]any, error) {
	c := &seekCall{ctx: ctx, keys: keys, arguments: arguments, done: make(chan struct{})}
	s.seeks.mu.Lock()
	s.seeks.waiting = append(s.seeks.waiting, c)
	if s.seeks.running < maxPipelines {
		s.seeks.running++
		s.seeks.runners.Go(s.sendSeeks)
	}
	s.seeks.mu.Unlock()
	select {
	case <-c.done:
		return c.reply, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sendSeeks sends calls until none waits.
func (s *sharedStore) sendSeeks() {
	for {
		runtime.Gosched() // so that goroutines that are ready to run can join the pipeline
		calls := s.seeks.take()
		if len(calls) == 0 {
			return
		}
		s.send(calls)
		for _, c := range calls {
			close(c.done)
		}
	}
}

// take takes the calls of the next pipeline. It returns none if none waits, and the caller ends.
func (q *seeks) take() []*seekCall {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(c *seekCall) bool { return c.ctx.Err() != nil })
	if len(q.waiting) == 0 {
		q.running--
		return nil
	}
	n := min(len(q.waiting), maxSeeks)
	calls := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return calls
}

// send makes calls by the hash of the script, and those again with its source that reach a server without it.
func (s *sharedStore) send(calls []*seekCall) {
	// A caller stops waiting when its own time is up. None has more time than this.
	ctx, cancel := context.WithTimeout(context.Background(), s.limits.patience)
	defer cancel()
	if len(calls) == 1 {
		c := calls[0]
		c.reply, c.err = s.script.Run(ctx, s.client, c.keys, c.arguments...).Slice()
		return
	}
	unknown := s.pipeline(ctx, s.script.EvalSha, calls)
	if len(unknown) > 0 {
		s.pipeline(ctx, s.script.Eval, unknown)
	}
}

type runScript = func(ctx context.Context, on redis.Scripter, keys []string, arguments ...any) *redis.Cmd

// pipeline makes calls in one round trip, and returns those for which the server does not have the script.
func (s *sharedStore) pipeline(ctx context.Context, run runScript, calls []*seekCall) (unknown []*seekCall) {
	pipe := s.client.Pipeline()
	replies := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		replies[i] = run(ctx, pipe, c.keys, c.arguments...)
	}
	_, _ = pipe.Exec(ctx) // its error is that of the first command that failed
	for i, c := range calls {
		if c.reply, c.err = replies[i].Slice(); redis.HasErrorPrefix(c.err, "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	return unknown
}
