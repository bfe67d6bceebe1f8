package policy

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sara/policy/lru"
	"sara/policy/redisconn"
)

// replicaIDLength is enough for replicas to have different ids: 40 bits. A replica has a new one after each start.
const replicaIDLength = 8

// RedisBudgetConfig configures a RedisBudget. Fields are required unless noted otherwise.
type RedisBudgetConfig struct {
	Client   redisconn.Client // see redisconn.Open; the caller closes it
	Replicas int              // how many may run; they share the allowances while Redis is down and the living are not known
	Now      func() time.Time // of this process; while Redis is up, only differences of it are used
	Log      *slog.Logger
	Registry prometheus.Registerer
	Store    ReplicaStore // keeps what is admitted without Redis across restarts; nil: nothing does

	// Timeout bounds a round trip to Redis; 0: 150 ms.
	Timeout time.Duration

	// Relieve frees memory of Redis, after it refused to count because its memory is full; nil: nothing can be freed. It returns
	// when ctx ends. The refused count is tried again after it.
	Relieve func(ctx context.Context)
}

// A Redis in trouble costs a request at most one round trip that times out. After that the circuit is open: no request waits
// for Redis until a probe succeeds.
const (
	defaultTimeout       = 150 * time.Millisecond
	probeInterval        = time.Second
	maxConcurrentCharges = 8 // bulkhead: more than the connection pool has would time out waiting for a connection
)

// A RedisBudget is a Budget that any number of replicas share through Redis. The clock of Redis decides the windows.
//
// A refusal is cached until it ends, so that a client that keeps asking does not load Redis. A key that several clients use at once has
// a lease, from which most of its requests are admitted without a wait; see lease.go.
//
// While Redis is down, this replica admits from memory its share of what was left of each limit when it last saw Redis (half of
// its share for upstream calls). The shares are as many as replicas have lately been alive. When Redis is back, the replica adds
// what it admitted; if Redis came back with less than it had, also what it had admitted before. See ledger.go. A cluster counts
// as down while any of its masters is.
type RedisBudget struct {
	config          RedisBudgetConfig
	timeout         time.Duration // of one round trip
	scripts         redisconn.Scripter
	clock           *redisClock
	batcher         *batcher
	replica         string // identifies this one in Redis
	members         *members
	chargeScript    *redis.Script
	restoreScript   *redis.Script
	propertyLimiter *redis_rate.Limiter
	chargeSlots     chan struct{} // limits concurrent calls that are not batched
	refusals        *lru.Cache[refusalKey, cachedRefusal]
	fallback        *MemoryBudget // and the ledger of what this replica has admitted
	metrics         redisBudgetMetrics
	losses          *lossLog
	shares          *shares // of the goroutine of watch

	switching sync.Mutex  // held while the circuit opens or closes
	degraded  atomic.Bool // the circuit is open
	// Of the goroutine of watch:
	fullSync  bool // Redis may lack any count of this replica
	sinceFull int  // ticks since it lacked none
	rejoining int  // for how many ticks Redis has answered again
	stop      context.CancelFunc
	done      sync.WaitGroup
}

// A refusalKey identifies what was refused: an account, a key or a property.
type refusalKey struct {
	ceiling Ceiling // AccountDay for any ceiling of an account
	id      string
}

type cachedRefusal struct {
	refusal Refusal
	cost    int // that was requested; a smaller one may still fit
	usage   Usage
	until   time.Time // by the clock of this process
}

const maxCachedRefusals = 100_000

var _ Budget = (*RedisBudget)(nil)

// NewRedisBudget returns a budget over Redis, which may still be down. Close the budget before its client.
func NewRedisBudget(c RedisBudgetConfig) *RedisBudget {
	return newRedisBudget(c, time.Tick(probeInterval))
}

func newRefusalCache() *lru.Cache[refusalKey, cachedRefusal] {
	return lru.New[refusalKey](lru.Config[cachedRefusal]{Weight: maxCachedRefusals})
}

// newRedisBudget lets tests choose when to probe.
func newRedisBudget(c RedisBudgetConfig, probe <-chan time.Time) *RedisBudget {
	if c.Relieve == nil {
		c.Relieve = func(context.Context) {}
	}
	scripts := redisconn.ScriptsOnce(c.Client)
	clock := newRedisClock(c.Now)
	ctx, stop := context.WithCancel(context.Background())
	b := &RedisBudget{
		config:          c,
		timeout:         cmp.Or(c.Timeout, defaultTimeout),
		scripts:         scripts,
		clock:           clock,
		replica:         rand.Text()[:replicaIDLength],
		members:         &members{most: max(1, c.Replicas)},
		chargeScript:    redis.NewScript(chargeLua),
		restoreScript:   redis.NewScript(restoreLua),
		propertyLimiter: redis_rate.NewLimiter(scripts),
		chargeSlots:     make(chan struct{}, maxConcurrentCharges),
		refusals:        newRefusalCache(),
		metrics:         newRedisBudgetMetrics(c.Registry),
		stop:            stop,
	}
	b.losses = &lossLog{log: c.Log, now: c.Now}
	b.shares = &shares{store: c.Store, log: c.Log, saved: map[string]ReplicaUsage{}, brought: map[ReplicaAccount]UsageCount{},
		pending: true} // by replicas that have ended
	b.fallback = newMemoryBudget(clock.time, b.members.size, 2)
	b.batcher = newBatcher(c.Client, clock, b.timeout, b.replica, b.fallback, b.metrics.batches, batchEvents{
		redisIsDown: b.degraded.Load, redisDown: b.redisDown, relieve: c.Relieve, restore: b.restore,
	})
	b.done.Go(func() { b.watch(ctx, probe) })
	return b
}

// Close stops the budget. It must not be used any more, not even by a call that is still running.
func (b *RedisBudget) Close() {
	b.stop()
	b.done.Wait()
	b.batcher.close()
	if b.degraded.Load() {
		b.saveLast()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	if err := errors.Join(b.sync(ctx, false), b.members.leave(ctx, b.config.Client, b.replica)); err != nil {
		b.config.Log.Warn("budgets: the last counts did not reach Redis", slog.Any("error", err))
		b.saveLast()
	}
}

// Admit implements Budget.
func (b *RedisBudget) Admit(accountID, keyID string, p Plan) (Usage, *Refusal) {
	if b.degraded.Load() {
		return b.fallback.Admit(accountID, keyID, p)
	}
	if usage, ok := b.batcher.take(accountID, keyID, p); ok {
		b.metrics.leased.Inc()
		return usage, nil
	}
	begun := b.config.Now()
	for _, of := range [...]refusalKey{{AccountDay, accountID}, {KeyMinute, keyID}} {
		if usage, refusal := b.cachedRefusal(begun, of, 1, &p); refusal != nil {
			return usage, refusal
		}
	}
	usage, refusal, err := b.batcher.admit(accountID, keyID, p)
	if err != nil {
		return b.fallback.Admit(accountID, keyID, p)
	}
	if refusal != nil {
		of := refusalKey{AccountDay, accountID}
		if refusal.Ceiling == KeyMinute {
			of = refusalKey{KeyMinute, keyID}
		}
		b.cacheRefusal(begun, of, 1, usage, *refusal)
	}
	return usage, refusal
}

// ChargeMinute implements Budget.
func (b *RedisBudget) ChargeMinute(accountID, keyID string, p Plan) (Usage, *Refusal) {
	if b.degraded.Load() {
		return b.fallback.ChargeMinute(accountID, keyID, p)
	}
	begun, of, minute := b.config.Now(), refusalKey{KeyMinute, keyID}, p.minuteOnly()
	if usage, refusal := b.cachedRefusal(begun, of, 1, &minute); refusal != nil {
		return usage, refusal
	}
	usage, refusal, err := b.batcher.admit(accountID, keyID, minute)
	if err != nil {
		return b.fallback.ChargeMinute(accountID, keyID, p)
	}
	if refusal != nil {
		b.cacheRefusal(begun, of, 1, usage, *refusal)
	}
	return usage, refusal
}

// Usage implements Budget.
func (b *RedisBudget) Usage(accountID string) Usage {
	if !b.degraded.Load() {
		if usage, _, err := b.batcher.admit(accountID, "", Plan{}); err == nil {
			return usage
		}
	}
	return b.fallback.Usage(accountID)
}

// cacheRefusal caches a refusal. It is counted from when the request was sent, so that it ends no later than in Redis.
func (b *RedisBudget) cacheRefusal(sent time.Time, of refusalKey, cost int, usage Usage, refusal Refusal) {
	b.refusals.Put(of, cachedRefusal{refusal: refusal, cost: cost, usage: usage, until: sent.Add(refusal.RetryAfter)})
}

// cachedRefusal returns a refusal that still holds. If the plan's limit has changed since, it does not.
func (b *RedisBudget) cachedRefusal(now time.Time, of refusalKey, cost int, p *Plan) (Usage, *Refusal) {
	r, ok := b.refusals.Get(of)
	if !ok || !now.Before(r.until) || cost < r.cost || r.refusal.Limit != p.limit(r.refusal.Ceiling) {
		return Usage{}, nil
	}
	b.metrics.cachedRefusals.Inc()
	refusal := r.refusal
	refusal.RetryAfter = r.until.Sub(now)
	r.usage.At = r.usage.At.Add(r.refusal.RetryAfter - refusal.RetryAfter)
	return r.usage, &refusal
}
