package policy

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sara/proxy/lru"
)

//go:embed script/charge.lua
var chargeLua string

// RedisBudgetConfig configures a RedisBudget. Fields are required unless noted otherwise.
type RedisBudgetConfig struct {
	Client   redis.UniversalClient // see OpenRedis; the caller closes it
	Replicas int                   // how many share the allowances while Redis is down
	Now      func() time.Time      // of this process; while Redis is up, only differences of it are used
	Log      *slog.Logger
	Registry prometheus.Registerer

	// Relieve frees memory of Redis, after it refused to count because its memory is full; nil: nothing can be freed. It returns
	// when ctx ends. The refused count is tried again after it.
	Relieve func(ctx context.Context)
}

// isFull reports whether Redis refused a script because its memory is full. It has executed nothing of it.
func isFull(err error) bool {
	return err != nil && strings.Contains(err.Error(), "OOM command not allowed")
}

// A Redis in trouble costs a request at most one round trip that times out. After that the circuit is open: no request waits
// for Redis until a probe succeeds.
const (
	roundTripTimeout     = 150 * time.Millisecond
	probeInterval        = time.Second
	maxConcurrentCharges = 8 // bulkhead: more than the connection pool has would time out waiting for a connection
)

// A RedisBudget is a Budget that any number of replicas share through Redis. The clock of Redis decides the windows.
//
// A refusal is cached until it ends, so that a client that keeps asking does not load Redis.
//
// While Redis is down, this replica admits its share of each limit from memory (half of its share for upstream calls), and
// adds what it admitted to Redis when that is back. The share of a window is granted once, however often Redis goes down: no
// account gets its allowance twice. Token buckets are not added back, because they refill within a minute anyway. A cluster
// counts as down while any of its masters is.
type RedisBudget struct {
	config          RedisBudgetConfig
	timeout         time.Duration // of one round trip
	client          noRetryClient
	clock           *redisClock
	batcher         *batcher
	chargeScript    *redis.Script
	propertyLimiter *redis_rate.Limiter
	chargeSlots     chan struct{} // limits concurrent calls that are not batched
	refusals        *lru.Cache[refusalKey, cachedRefusal]
	fallback        *MemoryBudget
	metrics         redisBudgetMetrics

	degraded atomic.Bool // the circuit is open
	stop     context.CancelFunc
	done     sync.WaitGroup
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
func NewRedisBudget(c RedisBudgetConfig) (*RedisBudget, error) {
	return newRedisBudget(c, roundTripTimeout, time.Tick(probeInterval))
}

func newRefusalCache() *lru.Cache[refusalKey, cachedRefusal] {
	return lru.New[refusalKey](lru.Config[cachedRefusal]{Weight: maxCachedRefusals})
}

// newRedisBudget lets tests choose the timeout of a round trip, and when to probe.
func newRedisBudget(c RedisBudgetConfig, timeout time.Duration, probe <-chan time.Time) (*RedisBudget, error) {
	if c.Relieve == nil {
		c.Relieve = func(context.Context) {}
	}
	replicas := max(1, c.Replicas)
	client := noRetryClient{c.Client}
	clock := &redisClock{now: c.Now}
	ctx, stop := context.WithCancel(context.Background())
	b := &RedisBudget{
		config:          c,
		timeout:         timeout,
		client:          client,
		clock:           clock,
		chargeScript:    redis.NewScript(chargeLua),
		propertyLimiter: redis_rate.NewLimiter(client),
		chargeSlots:     make(chan struct{}, maxConcurrentCharges),
		refusals:        newRefusalCache(),
		fallback:        newMemoryBudget(clock.time, replicas, 2*replicas),
		metrics:         newRedisBudgetMetrics(c.Registry),
		stop:            stop,
	}
	b.batcher = newBatcher(client, clock, timeout, b.degraded.Load, b.redisDown, c.Relieve, b.metrics.batches)
	b.done.Go(func() { b.watch(ctx, probe) })
	return b, nil
}

// Close stops the budget. It must not be used any more, not even by a call that is still running.
func (b *RedisBudget) Close() {
	b.stop()
	b.done.Wait()
	b.batcher.close()
}

// Admit implements Budget.
func (b *RedisBudget) Admit(ctx context.Context, accountID, keyID string, p Plan) (Usage, *Refusal) {
	if b.degraded.Load() {
		return b.fallback.Admit(ctx, accountID, keyID, p)
	}
	begun := b.config.Now()
	for _, of := range [...]refusalKey{{AccountDay, accountID}, {KeyMinute, keyID}} {
		if usage, refusal := b.cachedRefusal(begun, of, 1, &p); refusal != nil {
			return usage, refusal
		}
	}
	usage, refusal, err := b.batcher.admit(accountID, keyID, p)
	if err != nil {
		return b.fallback.Admit(ctx, accountID, keyID, p)
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
func (b *RedisBudget) ChargeMinute(ctx context.Context, accountID, keyID string, p Plan) (Usage, *Refusal) {
	if b.degraded.Load() {
		return b.fallback.ChargeMinute(ctx, accountID, keyID, p)
	}
	begun, of, minute := b.config.Now(), refusalKey{KeyMinute, keyID}, p.minuteOnly()
	if usage, refusal := b.cachedRefusal(begun, of, 1, &minute); refusal != nil {
		return usage, refusal
	}
	usage, refusal, err := b.batcher.admit(accountID, keyID, minute)
	if err != nil {
		return b.fallback.ChargeMinute(ctx, accountID, keyID, p)
	}
	if refusal != nil {
		b.cacheRefusal(begun, of, 1, usage, *refusal)
	}
	return usage, refusal
}

// Usage implements Budget.
func (b *RedisBudget) Usage(ctx context.Context, accountID string) Usage {
	if !b.degraded.Load() {
		if usage, _, err := b.batcher.admit(accountID, "", Plan{}); err == nil {
			return usage
		}
	}
	return b.fallback.Usage(ctx, accountID)
}

// cacheRefusal caches a refusal. It is counted from when the request was sent, so that it ends no later than in Redis.
func (b *RedisBudget) cacheRefusal(sent time.Time, of refusalKey, cost int, usage Usage, refusal Refusal) {
	b.refusals.Put(of, cachedRefusal{refusal: refusal, cost: cost, usage: usage, until: sent.Add(refusal.RetryAfter)}, 1, "")
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

// ChargeLiveCalls implements Budget. In a cluster the account and the property may be on different servers, so it takes two
// round trips: the account first, with a refund if the property refuses. The other order would let an account that has used
// up its day drain the property's minute for others.
func (b *RedisBudget) ChargeLiveCalls(ctx context.Context, accountID, propertyID string, calls int, p Plan) *Refusal {
	b.chargeSlots <- struct{}{}
	defer func() { <-b.chargeSlots }()
	if b.degraded.Load() {
		return b.fallback.ChargeLiveCalls(ctx, accountID, propertyID, calls, p)
	}
	begun, of := b.config.Now(), refusalKey{PropertyMinute, propertyID}
	if _, refusal := b.cachedRefusal(begun, of, calls, &p); refusal != nil {
		return refusal
	}
	refusal, err := b.chargeBoth(accountID, propertyID, calls, &p)
	switch {
	case err != nil:
		b.redisDown(err)
		return b.fallback.ChargeLiveCalls(ctx, accountID, propertyID, calls, p)
	case refusal != nil && refusal.Ceiling == PropertyMinute:
		// A refusal of the account is not cached: a refund can end it early.
		b.cacheRefusal(begun, of, calls, Usage{}, *refusal)
	}
	return refusal
}

func (b *RedisBudget) chargeBoth(accountID, propertyID string, calls int, p *Plan) (*Refusal, error) {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	now, wait, err := b.charge(ctx, UsageCount{AccountID: accountID, Calls: calls}, p.SearchConsoleCallsPerDay)
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		return &Refusal{AccountCalls, p.SearchConsoleCallsPerDay, wait}, nil
	}
	limit := p.LiveCallsPerMinutePerProperty
	result, err := b.propertyLimiter.AllowN(ctx, liveKey(propertyID), redis_rate.PerMinute(max(1, limit)), calls)
	if err == nil && result.Allowed == calls && limit > 0 {
		return nil, nil
	}
	// No call will be made, so the account gets a refund.
	back := refundCount(accountID, calls, now)
	if err != nil {
		b.fallback.add(back)
	} else {
		err = b.refund(ctx, back)
	}
	if err != nil {
		return nil, fmt.Errorf("charge the live calls of a property: %w", err)
	}
	return &Refusal{PropertyMinute, limit, max(result.RetryAfter, time.Millisecond)}, nil
}

// liveKey names the token bucket of a property's live calls; redis_rate adds a prefix.
func liveKey(propertyID string) string { return "sara:live:" + propertyID }

// RefundLiveCalls implements Budget. While Redis is down, the refund goes to this replica's share, and to Redis later.
func (b *RedisBudget) RefundLiveCalls(_ context.Context, accountID string, calls int, charged time.Time) {
	b.chargeSlots <- struct{}{}
	defer func() { <-b.chargeSlots }()
	back := refundCount(accountID, calls, charged)
	if b.degraded.Load() {
		b.fallback.add(back)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	if err := b.refund(ctx, back); err != nil {
		b.redisDown(err)
	}
}

// refund adds a negative count in Redis. If that fails, it goes to the fallback, whose count may become negative: the calls
// were charged in Redis, and syncFallback will add the two. ctx has a deadline.
func (b *RedisBudget) refund(ctx context.Context, back UsageCount) error {
	_, _, err := b.charge(ctx, back, unlimited)
	if err != nil {
		b.fallback.add(back)
	}
	return err
}

// charge adds to the counts of an account, unless its calls would exceed the ceiling: then it returns the time until they
// would fit. A count without an hour and a day counts in the current ones. ctx has a deadline.
func (b *RedisBudget) charge(ctx context.Context, c UsageCount, ceiling int) (now time.Time, wait time.Duration, err error) {
	for range 2 { // the second time with a clock that the first reply has set, or after memory was freed
		sent := b.clock.now()
		var numbers []int64
		numbers, err = b.chargeScript.Run(ctx, b.client, []string{accountKey(c.AccountID)},
			b.clock.deadline(ctx), ceiling, c.Calls, c.InHour, c.InDay, c.Hour, c.Day).Int64Slice()
		if err == nil {
			now, numbers, err = b.clock.read(numbers, sent)
		}
		if err == nil {
			return now, time.Duration(numbers[0]) * time.Microsecond, nil
		}
		if isFull(err) {
			b.config.Relieve(ctx)
		} else if !errors.Is(err, errExpired) {
			break
		}
	}
	return time.Time{}, 0, fmt.Errorf("charge in Redis: %w", err)
}
