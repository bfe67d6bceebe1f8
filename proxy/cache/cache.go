// Package cache is the read-through cache of upstream rows and of the responses built from them. Concurrent requests for
// the same rows are coalesced into one upstream call, within a process (singleflight) and across replicas (a lease in Redis).
//
// # The path of a request
//
// Do looks for rows in the memory of this process (an LRU), then in Redis, which the replicas share, and then calls the request's Fill.
// The command that reads Redis also takes the lease of the fill if there is no copy, in one script (seek.lua); requests that look at
// the same time share a round trip (pipelining). Look is Do up to this point, for a caller that wants to wait for the fill elsewhere.
//
// Rows are kept under the canonical upstream query, never under a URL, so all requests that need the same rows share them; the
// narrow and the wide sample of the same rows replace each other where they can. Responses built from rows are kept too (Keep), but
// only in memory, and until one of their sources is refilled.
//
// For the first page of a table, a request reads only the rows of that page from a copy in Redis (Request.FirstRows). A request that needs
// other rows reads the copy again.
//
// Rows are fresh for the request's TTL. After that, and up to a day, they are stale. Stale-while-revalidate: the first
// request that finds stale rows starts one refill in the background, and all requests get the stale rows until it is done.
// Stale-if-error: once a refill has failed, the next request waits for another refill, and gets the stale rows together with
// the error if that fails too. There is no negative caching: errors are shared with the waiters and then forgotten.
//
// # One fill
//
// In a process, a flight (singleflight) looks into Redis once for all callers, and then fills the key on its own context, so
// callers may leave. Across replicas, a flight needs the lease of the key in Redis, which it renews while it fills. Its outcome goes to
// all replicas by pub/sub, so no replica polls. A dead replica's lease expires after two seconds. Every waiter gets the
// error of a failed fill, unless it concerns only the caller that ran into it, such as a spent budget: then the next waiter tries. A
// fill for which there is no memory (Request.Reserve) fails for all waiters of this process, and leaves the lease to other replicas. A fill
// that panics fails for the request that started it, and the next waiter tries.
//
// # An attacker in Redis
//
// Rows and failures in Redis are sealed with a key that only replicas have (package keyring), and can be decrypted only under the cache
// key they were sealed for. So an attacker who can write to Redis can neither read a figure, nor change one, nor give one property another
// one's: a copy that cannot be decrypted is a miss. The attacker can withhold copies, and restore older ones of the same query, up to a
// day old. Without a keyring, replicas share nothing.
//
// # Failure
//
// A Redis error never fails a request, and delays it by at most Config.RedisPatience; after an error, Redis is not used
// for a second. Package redisrows bounds the rows in Redis. A value in Redis that cannot be read is a miss. If a pub/sub message
// is lost, replicas wait for the lease to expire.
//
// The package does not check access to rows, nor whether a budget allows a fill: callers do, before Do and in Fill.
//
// A Cache is safe for concurrent use. Entries and Answers are immutable.
package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/keyring"
	"sara/proxy/cpubound"
	"sara/proxy/redisrows"
	"sara/translate"
)

// MaxStale is the age beyond which rows are never returned, and expire in Redis.
const MaxStale = 24 * time.Hour

const (
	defaultPatience    = 100 * time.Millisecond
	defaultFillTimeout = 25 * time.Second
)

// Config configures a Cache.
type Config struct {
	Bytes       int64                 // memory limit for rows and answers together
	Rows        *redisrows.Store      // what replicas share in Redis: rows, leases and events; nil: a single replica
	Keyring     *keyring.Keyring      // seals what is shared; nil: nothing is shared, as with a single replica
	Errors      ErrorCodec            // required
	Now         func() time.Time      // nil: time.Now
	Slots       *cpubound.Slots       // bounds how many entries are encoded for Redis at a time; nil: no bound
	Log         *slog.Logger          // logs when Redis fails and when it recovers, and bugs; nil: no log
	Registry    prometheus.Registerer // nil: no metrics
	FillTimeout time.Duration         // of a fill, independent of its callers' deadlines; 0: 25 s

	// RedisPatience is the time that an unresponsive Redis may add to a request; 0: 100 ms. Pauses of this process do not count (redisconn.Late).
	RedisPatience time.Duration
}

// ErrorCodec carries the errors of fills to other replicas. It must be safe for concurrent use.
type ErrorCodec interface {
	// Encode returns the error as bytes. shared is false for an error that concerns only the caller that ran into it, such as
	// a spent budget: the other waiters then try themselves.
	Encode(err error) (data []byte, shared bool)
	// Decode returns an error that callers cannot distinguish from the encoded one.
	Decode(data []byte) error
}

// Request asks Do for rows.
type Request struct {
	PropertyID  string
	AccountID   string // the tenant whose share of the memory the rows count against
	Query       translate.Query
	TTL         time.Duration // how long rows are fresh for this request
	Bypass      bool          // skip all copies: fill, coalesced only with other bypasses of this process, and replace the copies
	Current     bool          // wait for the refill of stale rows, and return them only if it fails
	RequestHash uint64        // kept with rows that this request fills, see Entry.RequestHash
	// FirstRows is how many of the first rows of a ranked result the request needs; 0: all. The others need not be read from Redis
	// (translate.Groups).
	FirstRows int
	// Beside is a query whose copy is read from Redis into memory, for AtHand, together with these rows, unless memory has one. nil: none.
	Beside *translate.Query
	// Along is read together with the rows in Redis, if it is on the same server. Fill, which is called afterwards, uses it. nil: none.
	Along *Along
	// Reserve waits for a fill's memory before the fill is called; release frees it once the rows are kept here and in
	// Redis. Its error concerns only this replica: all waiters of this process get it, and another replica may fill. It runs on
	// Fill's context. nil: nothing is reserved.
	Reserve func(ctx context.Context) (release func(), err error)
	// Fill calls the upstream. It runs on its own context, and may outlive Do. Its panic is an error for those who wait. The rows it returns
	// must not change.
	Fill func(ctx context.Context) (*translate.Rows, error)
}

// Along is a value of Redis that Fill needs.
type Along struct {
	Key   string
	Value []byte // empty: none
	Read  bool   // a moment ago; otherwise Fill must read it
}

// Status is how Do found an Entry.
type Status uint8

// The statuses, the cheapest first.
const (
	HitMemory Status = iota // in this process
	HitShared               // in Redis
	Coalesced               // by waiting for the fill of another request, in this process or in another replica
	Filled                  // by calling the upstream for this request
)

// Found is the result of Do.
type Found struct {
	Entry  *Entry // if Do failed: stale rows, up to a day old, or nil
	Status Status
	Stale  bool // the entry is older than the request's TTL: a refill is running, or has failed
}

// Cache keeps rows and answers. Call Close to release it.
type Cache struct {
	now         func() time.Time
	log         *slog.Logger
	errors      ErrorCodec
	fillTimeout time.Duration
	memory      *memory
	redis       *sharedStore // nil: a single replica
	flights     flights
	metrics     *metrics
	keyBuffers  sync.Pool // *[]byte

	running context.Context // of the fills; canceled by Close
	cancel  context.CancelFunc
}

// New returns a Cache. Redis may be down.
func New(config Config) (*Cache, error) {
	if config.Bytes <= 0 {
		return nil, fmt.Errorf("the cache has %d bytes of memory: it needs at least 1", config.Bytes)
	}
	if config.Errors == nil {
		return nil, errors.New("the cache has no ErrorCodec")
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	c := &Cache{
		now: config.Now, log: config.Log, errors: config.Errors, fillTimeout: cmp.Or(config.FillTimeout, defaultFillTimeout),
		memory: newMemory(config.Bytes), keyBuffers: sync.Pool{New: func() any { return new([]byte) }},
	}
	if c.now == nil {
		c.now = time.Now
	}
	var err error
	if c.metrics, err = newMetrics(config.Registry, c.memory); err != nil {
		return nil, err
	}
	if config.Keyring != nil && config.Rows != nil {
		c.redis = newSharedStore(&config, c.now, c.metrics)
	}
	c.running, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close cancels the running fills and waits for all goroutines of the Cache. Afterwards, requests that need a fill fail.
func (c *Cache) Close() {
	c.flights.close()
	c.cancel()
	c.flights.running.Wait()
	if c.redis != nil {
		c.redis.close()
	}
}

// servable reports whether a stale entry may be returned while it is refilled: not if its last refill failed.
func (f Found) servable() bool { return f.Stale && !f.Entry.refillFailed.Load() }

// fromMemory returns the newest entry in memory that answers the request.
func (c *Cache) fromMemory(r *Request) Found {
	newest := c.kept(r.PropertyID, &r.Query)
	if sibling, ok := r.Query.Sibling(); ok {
		other := c.kept(r.PropertyID, &sibling)
		if other != nil && r.Query.AnsweredBy(sibling, other.Rows().Len()) && (newest == nil || other.filled.After(newest.filled)) {
			newest = other
		}
	}
	if newest != nil && !newest.Rows().HasFirst(r.FirstRows) {
		return Found{}
	}
	return c.found(newest, HitMemory, r.TTL)
}

// fromRedis returns the newest entry in Redis that answers the request, and puts it into memory; if it is not newer than what
// memory has, it returns the latter.
func (c *Cache) fromRedis(ctx context.Context, l *lookup, has Found) Found {
	if c.redis == nil {
		return has
	}
	return c.take(l, has, c.redis.fetch(ctx, l, c.besides(l)))
}

// take puts what Redis has into memory: an entry if it is newer than what memory has, and one beside it. It returns the newer one.
func (c *Cache) take(l *lookup, has Found, of sought) Found {
	if of.beside != nil {
		c.memory.putEntry(of.beside, l.AccountID)
	}
	found := c.newer(has, of.entry, l.TTL)
	if of.entry != nil && found.Entry == of.entry {
		c.memory.inherit(of.entry)
		c.memory.putEntry(of.entry, l.AccountID)
	}
	return found
}

// newer returns an entry from Redis if it is newer than the one in memory, and otherwise the latter.
func (c *Cache) newer(has Found, entry *Entry, ttl time.Duration) Found {
	if entry == nil || has.Entry != nil && !entry.filled.After(has.Entry.filled) {
		return has
	}
	return c.found(entry, HitShared, ttl)
}

// besides returns the query to read together with a lookup (Request.Beside); none if memory has a copy for AtHand.
func (c *Cache) besides(l *lookup) []candidate {
	if l.Beside == nil || c.found(c.kept(l.PropertyID, l.Beside), HitMemory, MaxStale).Entry != nil {
		return nil
	}
	l.beside[0], _ = candidateOf(l.PropertyID, l.Beside, "")
	return l.beside[:]
}

// kept returns the entry in memory of a query, or nil.
func (c *Cache) kept(propertyID string, q *translate.Query) *Entry {
	buffer := c.keyBuffers.Get().(*[]byte)
	defer c.keyBuffers.Put(buffer)
	*buffer = appendKey((*buffer)[:0], propertyID, q)
	return c.memory.entry(*buffer)
}

// found marks an entry as fresh or stale, and drops one that is older than MaxStale.
func (c *Cache) found(entry *Entry, status Status, ttl time.Duration) Found {
	if entry == nil {
		return Found{}
	}
	age := c.now().Sub(entry.filled)
	if age >= MaxStale {
		return Found{}
	}
	return Found{Entry: entry, Status: status, Stale: age >= ttl}
}

// CountWidened counts upstream calls that were saved because an earlier request's query had been widened.
func (c *Cache) CountWidened(n int) { c.metrics.widened.Add(float64(n)) }
