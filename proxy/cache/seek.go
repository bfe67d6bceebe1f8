package cache

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/proxy/spans"
	"sara/translate"
)

//go:embed script/seek.lua
var seekLua string

// errReply means that a reply does not have the form of seek.lua's.
var errReply = errors.New("the reply of Redis has an unexpected form")

// sought is what seek finds.
type sought struct {
	entry, beside *Entry // the newest that answers the lookup, and the newest of the query beside it; nil: none
	token         string // of the lease; "": it was not taken
	ok            bool   // Redis answered
}

// A leaseWish is when seek takes the lease of a fill.
type leaseWish uint8

const (
	noLease     leaseWish = iota // never
	leaseIfNone                  // if no copy can answer
	leaseAnyway                  // even if copies can answer
)

// look is the first look of a flight into Redis, which takes the lease if there is no copy. If ctx ends while a long copy waits to be
// read, it finds nothing.
func (s *sharedStore) look(ctx context.Context, l *lookup, beside []candidate) sought {
	ctx, span := spans.StartCall(ctx, "read Redis")
	defer span.End()
	return s.seek(ctx, l, beside, s.limits.lookUp, leaseIfNone)
}

// fetch is look without the lease.
func (s *sharedStore) fetch(ctx context.Context, l *lookup, beside []candidate) sought {
	ctx, span := spans.StartCall(ctx, "read Redis")
	defer span.End()
	return s.seek(ctx, l, beside, s.limits.lookUp, noLease)
}

// longestAlong is the largest part of a copy, in bytes, that a pipeline of seeks returns. A larger one is read for its request alone, over
// another connection, so that one request for many rows does not delay those that wait for the same pipeline.
const longestAlong = 64 << 10

// maxLongReads is how many requests read and decode long values at a time (bulkhead): as many as half of the processors can handle, so
// that one account's readers cannot make Redis seem down for all. It also bounds their memory in transit.
func maxLongReads() int { return max(2, runtime.GOMAXPROCS(0)/2) }

// errPaused means that Redis failed while a step waited for its turn.
var errPaused = errors.New("another step with Redis has failed meanwhile")

// seek reads the copies of a lookup, only as much of them as it needs, and takes the lease of its fill according to wish, in one command.
func (s *sharedStore) seek(ctx context.Context, l *lookup, beside []candidate, limit time.Duration, wish leaseWish) (found sought) {
	if s.breaker.Admit() > 0 {
		return found
	}
	until := time.Now().Add(limit)
	call := s.seeks.newCall()
	defer s.release(call)
	call.token, call.copies, call.parts, call.anyway = "", len(l.all), translate.Groups(l.FirstRows), wish == leaseAnyway
	for i := range l.all {
		call.keys = append(call.keys, l.all[i].redisKey)
	}
	for i := range beside {
		call.keys = append(call.keys, beside[i].redisKey)
	}
	along := wish != noLease && s.along && l.Along != nil && l.Along.Key != ""
	if along {
		call.keys = append(call.keys, l.Along.Key)
	}
	if wish != noLease {
		call.token = rand.Text()
		call.keys = append(call.keys, l.lease)
	}
	var memory [8][]byte // on the stack
	values, lease, err := s.call(ctx, call, until, memory[:0])
	if found.ok = s.settle(ctx, err); values == nil {
		return found
	}
	if lease {
		found.token = call.token
	}
	if along && found.ok {
		l.Along.Value, l.Along.Read = values[len(values)-1], true
	}
	found.entry, found.beside = s.chooseBoth(ctx, l, beside, values)
	return found
}

// call makes a call, and appends the values of all keys except the lease's to memory. It reports whether the lease was taken. Values are
// returned even if Redis refused to write the lease, or if a long one could not be read and counts as none: both are errors. One that is
// longer than any copy counts as damaged.
func (s *sharedStore) call(ctx context.Context, c *seekCall, until time.Time, memory [][]byte) (values [][]byte, lease bool, err error) {
	isProbe := s.breaker.Failure() != nil
	reply, err := s.wait(c, until)
	if err != nil {
		return nil, false, err
	}
	if len(reply) != c.reads()+1 {
		return nil, false, errReply
	}
	reply, leased := reply[:c.reads()], reply[c.reads()]
	for i, value := range reply {
		var bytes []byte
		switch value := value.(type) {
		case string:
			bytes = bytesOf(value)
		case int64:
			if value > maxPayload { // no copy is as long
				s.discard(c.keys[i], errTorn)
				break
			}
			if err == nil {
				err = s.beginLong(ctx, c, isProbe)
			}
			if err == nil {
				bytes, err = s.readLong(ctx, c.keys[i])
			}
		}
		memory = append(memory, bytes)
	}
	if refused, ok := leased.(string); ok && err == nil {
		err = errors.New(refused)
	}
	return memory, leased == int64(1), err
}

// beginLong waits for a call's turn to read long values. The turn ends with release.
func (s *sharedStore) beginLong(ctx context.Context, c *seekCall, isProbe bool) error {
	if c.long {
		return nil
	}
	select {
	case s.longReads <- struct{}{}:
		c.long = true
	case <-ctx.Done():
		return ctx.Err()
	}
	if !isProbe && s.breaker.Failure() != nil {
		return errPaused
	}
	return nil
}

// readLong reads a long value, which may have expired.
func (s *sharedStore) readLong(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.lookUp)
	defer cancel()
	value, err := s.client.Get(ctx, key).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return value, err
}

// release ends a call.
func (s *sharedStore) release(c *seekCall) {
	if c.long {
		c.long = false
		<-s.longReads
	}
	s.seeks.release(c)
}
