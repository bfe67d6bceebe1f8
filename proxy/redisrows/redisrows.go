// Package redisrows keeps the cached rows that replicas share in Redis within bounds, so that they never push out the counters of
// budgets, nor one account's rows those of others.
//
// # Bounds
//
// An index in Redis records the size of every row, in the order in which their fills began, and the sums in total and for each account.
// Each write adds its row to the index, unless that has a newer copy of it: fills may end in another order than they began. It then
// evicts the account's oldest rows beyond a quarter of the bound (Config.Bytes), and the oldest of all rows beyond the bound itself.
// One Lua script maintains the index. On a single server, the script also writes the row, releases the lease and publishes the event.
// In a cluster, the index is in one slot and the rows are in many, so it takes another round trip.
//
// # Load shedding
//
// When its memory is full, Redis refuses all writes, including those of counters, or evicts keys, depending on its policy. So rows
// leave a margin: when a server uses more than 85 % of its maxmemory, the bound shrinks by the excess, to 0 if necessary, and the
// oldest rows are deleted at once. For that, Watch reads INFO every ten seconds, and Relieve does so when Redis has refused a write.
// Where rows and counters share a server, rows never use more than half of its memory.
//
// # Failure
//
// If the index is lost (by a flush, a failover or an eviction), the rows that it listed are unknown; they expire within a day. Until
// then they count as other use of the memory, and leave less for new rows. If they alone fill the memory, Watch finds and deletes
// them. Without INFO, which a managed service may forbid, only Config.Bytes bounds the rows.
//
// The package knows neither the format of rows nor who may read them: package cache does.
package redisrows

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

var (
	//go:embed script/index.lua
	indexLua string
	//go:embed script/evicted.lua
	evictedLua string
	//go:embed script/publish.lua
	publishLua string
	//go:embed script/release.lua
	releaseLua string
)

const (
	// DefaultBytes is the bound of the rows if there is no other.
	DefaultBytes = 256 << 20

	accountShare = 4 // an account may fill a quarter of the bound, as in the memory of a process

	// rowOverhead is the memory of a row in Redis in addition to its value: its key, its expiry and its four places in the index.
	// A test measures it.
	rowOverhead = 1 << 10
)

// Config configures a Store.
type Config struct {
	Rows     redisconn.Client      // where the rows are; required. The caller closes it
	Counters redisconn.Client      // where the counters of budgets are; nil: in the same place
	Bytes    int64                 // bounds the rows in Redis, overhead included; 0: DefaultBytes
	Lifetime time.Duration         // after which a row expires; required
	Now      func() time.Time      // nil: time.Now
	Log      *slog.Logger          // nil: no log
	Registry prometheus.Registerer // nil: no metrics
}

// Store writes rows to Redis within their bounds. It is safe for concurrent use.
type Store struct {
	config                  Config
	cluster                 bool // the index and a row may be on different servers
	trim, publish, released *redis.Script
	metrics                 *metrics

	bound    atomic.Int64 // of all rows, now
	measured atomic.Bool  // whether the bound is by a look at the servers
	failures atomic.Int32 // looks in a row that failed
	suspect  chan struct{}

	looking   chan struct{} // holds one element while a look runs
	nextSweep time.Time     // of Watch
}

// New returns a Store, whose servers may still be down.
func New(c Config) (*Store, error) {
	c.Bytes = cmp.Or(c.Bytes, DefaultBytes)
	if c.Counters == nil {
		c.Counters = c.Rows
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Rows == nil || c.Bytes < 0 || c.Lifetime <= 0 {
		return nil, fmt.Errorf("BUG: the rows in Redis have no client, %d bytes or a lifetime of %v", c.Bytes, c.Lifetime)
	}
	s := &Store{
		config: c, cluster: redisconn.IsCluster(c.Rows), metrics: newMetrics(), suspect: make(chan struct{}, 1), looking: make(chan struct{}, 1),
		trim: redis.NewScript(indexLua + evictedLua), publish: redis.NewScript(indexLua + publishLua), released: redis.NewScript(releaseLua),
	}
	s.bound.Store(c.Bytes)
	return s, s.metrics.register(c.Registry)
}

// Client returns the client of the rows' server.
func (s *Store) Client() redisconn.Client { return s.config.Rows }

// The keys of the index have one hash tag, so that they are in one slot of a cluster.
func indexKeys() []string {
	return []string{"sara:{sara:cache}:order", "sara:{sara:cache}:rows", "sara:{sara:cache}:sums"}
}

// bounds returns the bounds of all rows and of those of an account.
func (s *Store) bounds() (all, account int64) {
	all = s.bound.Load()
	return all, all / accountShare
}

// weigh returns the bytes that a row takes in Redis: jemalloc, its allocator, rounds up to one of four sizes between two powers
// of two.
func weigh(value []byte) int64 {
	n := uint64(len(value)) + 1
	if step := uint64(1) << max(4, bits.Len64(n-1)-3); n%step > 0 {
		n += step - n%step
	}
	return int64(n) + rowOverhead
}

// Outcome is the result of a fill.
type Outcome struct {
	Key     string        // of the row
	Account string        // whose share of the bound the row counts against
	Value   []byte        // the row; nil: there is nothing to write
	Age     time.Duration // of the row, since its fill began; at least 0

	Lease, Token string // the lease to release, and the token with which this replica took it; an empty token: none
	Channel      string
	Event        []byte // published if the row or a newer copy is in Redis, or if there is none to write
	Refused      []byte // published instead if the row has no place within the bounds
}

// inScript is the largest row in bytes that passes through a script: Lua copies it twice, which costs less than a command of its own.
const inScript = 64 << 10

// handover is how long a large row lasts under the name from which the script takes it.
const handover = time.Minute

// Publish writes the row of a fill, releases the lease and publishes the event, in this order: in one command, or in two round trips
// if there is a row and Redis is a cluster. A large row takes one more command. A row that has no place within the bounds is left out, and
// so is one of which Redis has a newer copy; in a cluster, two that are written at the same time may replace each other all the same.
func (s *Store) Publish(ctx context.Context, o *Outcome) error {
	if o.Value == nil {
		return s.release(ctx, o, o.Event)
	}
	if !s.measured.Load() {
		if err := s.Relieve(ctx); err != nil {
			return err
		}
	}
	weight := weigh(o.Value)
	if _, share := s.bounds(); weight > share {
		s.metrics.refused.Inc()
		return s.release(ctx, o, o.Refused)
	}
	publish := s.publishOnServer
	if s.cluster {
		publish = s.publishInCluster
	}
	result, err := publish(ctx, o, weight)
	switch {
	case redisconn.IsFull(err):
		return errors.Join(err, s.release(ctx, o, o.Refused))
	case err == nil && result.verdict == refused:
		s.metrics.refused.Inc()
	}
	return err
}

// publishOnServer writes the row, makes room for it and does the rest in one script. A large row is written under another name just before,
// in the same round trip.
func (s *Store) publishOnServer(ctx context.Context, o *Outcome, weight int64) (indexReply, error) {
	keys := append(indexKeys(), o.Lease)
	arguments := append(s.arguments(o.Key, weight, o.Account, o.Age), o.Token, o.Channel, o.Event, o.Refused, s.expiry(o).Milliseconds())
	if len(o.Value) <= inScript {
		return s.indexed(s.publish.Run(ctx, s.config.Rows, keys, append(arguments, o.Value)...))
	}
	written := o.Key + ":" + rand.Text()
	keys = append(keys, written)
	pipe := s.config.Rows.Pipeline()
	set := pipe.Set(ctx, written, o.Value, handover)
	reply := s.publish.EvalSha(ctx, pipe, keys, arguments...)
	redisconn.Exec(ctx, pipe)
	if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
		reply = s.publish.Eval(ctx, s.config.Rows, keys, arguments...)
	}
	result, err := s.indexed(reply)
	return result, cmp.Or(set.Err(), err)
}

// expiry returns the time after which a row expires.
func (s *Store) expiry(o *Outcome) time.Duration {
	return max(time.Millisecond, s.config.Lifetime-o.Age)
}

func (s *Store) release(ctx context.Context, o *Outcome, event []byte) error {
	return s.released.Run(ctx, s.config.Rows, []string{o.Lease}, o.Token, o.Channel, event).Err()
}

// publishInCluster takes the row into the index first, so that the rows are never beyond their bounds for longer than that
// round trip. What an interruption leaves behind expires.
func (s *Store) publishInCluster(ctx context.Context, o *Outcome, weight int64) (indexReply, error) {
	result, err := s.indexed(s.trim.Run(ctx, s.config.Rows, indexKeys(), s.arguments(o.Key, weight, o.Account, o.Age)...))
	if err != nil {
		return result, err
	}
	pipe := s.config.Rows.Pipeline()
	for _, evicted := range result.evicted {
		pipe.Unlink(ctx, evicted)
	}
	keys, arguments := []string{o.Lease}, []any{o.Token, o.Channel, o.Event}
	switch {
	case result.verdict == refused:
		arguments[2] = o.Refused
	case result.verdict == outdated:
	case len(o.Value) <= inScript:
		keys, arguments = append(keys, o.Key), append(arguments, s.expiry(o).Milliseconds(), o.Value)
	default:
		pipe.Set(ctx, o.Key, o.Value, s.expiry(o))
	}
	pipe.Eval(ctx, releaseLua, keys, arguments...)
	_, err = pipe.Exec(ctx)
	return result, err
}

func (s *Store) arguments(key string, weight int64, account string, age time.Duration) []any {
	all, share := s.bounds()
	return []any{all, share, s.config.Lifetime.Milliseconds(), key, weight, account, age.Microseconds()}
}

// What becomes of a row.
const (
	refused  = 0 // it has no place within the bounds
	taken    = 1 // into the index
	outdated = 2 // a newer copy stays
)

// indexReply is a reply of a script that begins with index.lua.
type indexReply struct {
	verdict int64
	bytes   int64 // of all rows
	evicted []string
	count   int64 // of the evicted rows
}

// indexed reads a reply of a script that begins with index.lua.
func (s *Store) indexed(cmd *redis.Cmd) (indexReply, error) {
	reply, err := cmd.Slice()
	if err != nil {
		return indexReply{}, err
	}
	var numbers [4]int64
	for i := range numbers {
		if i < len(reply) {
			numbers[i], _ = reply[i].(int64)
		}
	}
	result := indexReply{verdict: numbers[0], bytes: numbers[1], count: numbers[2] + numbers[3]}
	for _, key := range reply[min(len(numbers), len(reply)):] {
		if key, ok := key.(string); ok {
			result.evicted = append(result.evicted, key)
		}
	}
	s.metrics.bytes.Set(float64(result.bytes))
	s.metrics.evictedForAccount.Add(float64(numbers[2]))
	s.metrics.evictedForAll.Add(float64(numbers[3]))
	return result, nil
}
