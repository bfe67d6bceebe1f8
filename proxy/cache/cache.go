package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sara/translate"
)

// maxStale is how long a copy is of use, at most.
const maxStale = 24 * time.Hour

const defaultPatience = 100 * time.Millisecond

// Config says how to build a Cache.
type Config struct {
	Bytes       int64                 // bound of the memory, answers and rows together
	Redis       redis.UniversalClient // shared copies, leases, notices; nil: this process is alone. It stays the caller's to close
	Errors      ErrorCodec            // required
	Now         func() time.Time      // ages of copies are told by it; nil: time.Now
	Log         *slog.Logger          // told when Redis goes and comes back; nil: nobody
	Registry    prometheus.Registerer // nil: nobody reads the metrics
	FillTimeout time.Duration         // of a fill, whatever becomes of who asked; 0: 25 s

	// RedisPatience is what a Redis that does not answer may add to a request; 0: a tenth of a second.
	RedisPatience time.Duration
}

// ErrorCodec are how the errors of fills travel between those who wait. Its methods are called from any goroutine.
type ErrorCodec interface {
	// Encode returns an error in a form for other processes. Shared is false for an error that concerns only the one who
	// ran into it, such as a spent budget of theirs: the others then try for themselves.
	Encode(err error) (data []byte, shared bool)
	// Decode returns the error that Encode was given, as far as its callers can tell.
	Decode(data []byte) error
}

// Request is what a caller of Do wants to know.
type Request struct {
	PropertyID  string
	AccountID   string // who asks: the rows take from its share of the memory
	Query       translate.Query
	TTL         time.Duration // how long rows are fresh for this question; older ones, up to a day, are stale
	Bypass      bool          // no copy will do: ask, alone but for other bypasses under way in this process, and refresh the copies
	RequestHash uint64        // fingerprint of the request, kept with rows that it filled
	// Fill asks the upstream. It may run, and end, after Do returned, on a context that is not Do's, and must not panic. The
	// rows are read-only from then on.
	Fill func(ctx context.Context) (*translate.Rows, error)
}

// Status is where an Entry was found.
type Status uint8

// The ways to find an Entry, from the cheapest.
const (
	HitMemory Status = iota // in this process
	HitShared               // in Redis
	Coalesced               // somebody else's fill, in this process or in another replica, was waited for
	Filled                  // this call asked the upstream
)

// String returns the name in lower case.
func (h Status) String() string {
	switch h {
	case HitMemory:
		return "memory"
	case HitShared:
		return "shared"
	case Coalesced:
		return "awaited"
	case Filled:
		return "filled"
	}
	return fmt.Sprintf("BUG: how %d", uint8(h))
}

// Found is what Do found.
type Found struct {
	Entry  *Entry // with an error: the copy there is, up to a day old, or nil
	Status Status
	Stale  bool // the copy is past the question's life: a refill is under way, or failed
}

// Cache keeps rows and answers. New makes one; it needs Close.
type Cache struct {
	now         func() time.Time
	errors      ErrorCodec
	fillTimeout time.Duration
	memory      *memory
	redis       *sharedStore // nil: this process is alone
	flights     flights
	metrics     *metrics
	scratch     sync.Pool // *[]byte, for keys that are only looked up

	running context.Context // of the fills; ends with Close
	cancel  context.CancelFunc
}

// New returns a Cache. Redis need not answer yet.
func New(config Config) (*Cache, error) {
	if config.Bytes <= 0 {
		return nil, fmt.Errorf("the memory of the cache has %d bytes: give it some", config.Bytes)
	}
	if config.Errors == nil {
		return nil, errors.New("the cache has no ErrorCodec")
	}
	c := &Cache{
		memory: newMemory(config.Bytes),
		now:    config.Now, errors: config.Errors, fillTimeout: config.FillTimeout,
		scratch: sync.Pool{New: func() any { return new([]byte) }},
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.fillTimeout == 0 {
		c.fillTimeout = 25 * time.Second
	}
	var err error
	if c.metrics, err = newMetrics(config.Registry, c.memory); err != nil {
		return nil, err
	}
	if config.Redis != nil {
		if c.redis, err = newSharedStore(&config, c.now, c.metrics); err != nil {
			return nil, err
		}
	}
	c.running, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close ends the fills under way and waits for every goroutine of the Cache. From then on, what needs a fill is an error.
func (c *Cache) Close() {
	c.flights.refuse()
	c.cancel()
	c.flights.running.Wait()
	if c.redis != nil {
		c.redis.close()
	}
}

// Do returns the rows that answer a question, by the walk that the package's documentation tells. It waits no longer than
// ctx, except for a Redis that is slow. An error is one of Fill's, or one of ErrorCodec.Decode, or wraps ctx's; the copy there
// is comes with it.
func (c *Cache) Do(ctx context.Context, q Request) (Found, error) {
	if q.Bypass {
		return c.bypass(ctx, &q)
	}
	found := c.recall(&q)
	if found.Entry != nil && !found.Stale {
		c.metrics.memory.Inc()
		return found, nil
	}
	i := newLookup(&q)
	if !c.flights.under(i.flight) {
		found = c.lookUp(ctx, i, found)
	}
	switch {
	case found.Entry != nil && !found.Stale:
		c.metrics.shared.Inc()
		return found, nil
	case found.servable():
		c.join(ctx, i, found.Entry)
		c.metrics.revalidating.Inc()
		return found, nil
	}
	c.metrics.miss.Inc()
	return c.await(ctx, i, found)
}

// bypass fills whatever copies there are, which are of use only when that fails.
func (c *Cache) bypass(ctx context.Context, q *Request) (Found, error) {
	c.metrics.bypass.Inc()
	i := newLookup(q)
	found, err := c.await(ctx, i, Found{})
	if err != nil {
		return c.lookUp(ctx, i, c.recall(q)), err
	}
	return found, nil
}

// Has reports whether Do would answer the question now, from a copy that is fresh or stale, without waiting for a fill. A
// copy that it finds in Redis is in memory then.
func (c *Cache) Has(ctx context.Context, q Request) bool {
	if q.Bypass {
		return false
	}
	found := c.recall(&q)
	if found.Entry == nil || found.Stale {
		found = c.lookUp(ctx, newLookup(&q), found)
	}
	return found.Entry != nil && !found.Stale || found.servable()
}

// servable reports whether a stale copy may be returned while it is refilled.
func (f Found) servable() bool { return f.Entry != nil && f.Stale && !f.Entry.failing.Load() }

// recall returns the freshest copy in memory that answers the question.
func (c *Cache) recall(q *Request) Found {
	scratch := c.scratch.Get().(*[]byte)
	defer c.scratch.Put(scratch)
	*scratch = appendKey((*scratch)[:0], q.PropertyID, &q.Query)
	best := c.memory.entry(*scratch)
	if sibling, ok := q.Query.Sibling(); ok {
		*scratch = appendKey((*scratch)[:0], q.PropertyID, &sibling)
		other := c.memory.entry(*scratch)
		if other != nil && q.Query.AnsweredBy(sibling, other.rows.Len()) && (best == nil || other.filled.After(best.filled)) {
			best = other
		}
	}
	return c.found(best, HitMemory, q.TTL)
}

// found tells how a copy stands. One that is too old to be of use is none.
func (c *Cache) found(entry *Entry, how Status, life time.Duration) Found {
	if entry == nil {
		return Found{}
	}
	age := c.now().Sub(entry.filled)
	if age >= maxStale {
		return Found{}
	}
	return Found{Entry: entry, Status: how, Stale: age >= life}
}

// lookUp returns the freshest copy of Redis that answers, if it is fresher than what memory has, and brings it to memory.
func (c *Cache) lookUp(ctx context.Context, i *lookup, has Found) Found {
	if c.redis == nil {
		return has
	}
	entry := c.redis.fetch(ctx, i)
	if entry == nil || has.Entry != nil && (entry.id == has.Entry.id || !entry.filled.After(has.Entry.filled)) {
		return has
	}
	c.memory.putEntry(entry, i.AccountID)
	return c.found(entry, HitShared, i.TTL)
}

// Widened counts upstream calls that were saved because a wider question was asked.
func (c *Cache) Widened(n int) { c.metrics.widened.Add(float64(n)) }
