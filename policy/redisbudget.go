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
	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

//go:embed script/charge.lua
var chargeLua string

// SharedConfig is what a Shared counter needs. Every member is required.
type RedisBudgetConfig struct {
	Client   redis.UniversalClient // see OpenRedis; stays the caller's to close
	Replicas int                   // how many share the allowances while Redis is away
	Now      func() time.Time      // of this process; only durations are taken from it while Redis is there
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// The bounds of what a Redis in trouble costs a request: one round trip that times out, after which nobody waits for it
// until it answers again.
const (
	roundTripTimeout     = 150 * time.Millisecond
	probeInterval        = time.Second
	maxConcurrentCharges = 8 // charges of live calls at once; more than there are connections would time out for want of one
)

// Shared is a Budget that any number of replicas share through Redis, whose own clock decides the windows. It remembers a
// refusal until it ends, so that a client that keeps asking costs Redis nothing. While Redis does not answer, it gives out
// this replica's share from memory, half of that for upstream calls, and adds what was used to Redis when that is back. A
// share is given out once a window, however often Redis goes: nobody gets past an allowance twice over. The buckets of a
// minute are not added: they are full again before anybody could tell. A cluster counts as away while any of its nodes is.
type RedisBudget struct {
	config          RedisBudgetConfig
	timeout         time.Duration
	client          noRetryClient
	clock           *redisClock
	batcher         *batcher
	chargeScript    *redis.Script
	propertyLimiter *redis_rate.Limiter
	chargeSlots     chan struct{} // a place for each charge of live calls that talks to Redis
	refusals        boundedCache[refusalKey, cachedRefusal]
	fallback        *MemoryBudget
	metrics         redisBudgetMetrics

	degraded atomic.Bool
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// owner is who was refused by a ceiling.
type refusalKey struct {
	ceiling Ceiling // of an account always AccountDay
	id      string
}

// remembered is a refusal and until when, by this process' clock, it holds.
type cachedRefusal struct {
	refusal Refusal
	cost    int // of what was refused: less than it may fit
	usage   Usage
	until   time.Time
}

const maxCachedRefusals = 100_000

var _ Budget = (*RedisBudget)(nil)

// NewRedisBudget returns a counter over Redis, which need not answer yet. Close it before its client.
func NewRedisBudget(c RedisBudgetConfig) (*RedisBudget, error) {
	return newRedisBudget(c, roundTripTimeout, time.Tick(probeInterval))
}

// newShared takes the longest that a round trip may take, and the ticks at which to look whether Redis is back.
func newRedisBudget(c RedisBudgetConfig, trip time.Duration, tick <-chan time.Time) (*RedisBudget, error) {
	refusals, err := otter.New(&otter.Options[refusalKey, cachedRefusal]{MaximumSize: maxCachedRefusals})
	if err != nil {
		return nil, fmt.Errorf("make a memory of refusals: %w", err)
	}
	replicas := max(1, c.Replicas)
	client := noRetryClient{c.Client}
	clock := &redisClock{now: c.Now}
	ctx, stop := context.WithCancel(context.Background())
	s := &RedisBudget{
		config:          c,
		timeout:         trip,
		client:          client,
		clock:           clock,
		chargeScript:    redis.NewScript(chargeLua),
		propertyLimiter: redis_rate.NewLimiter(client),
		chargeSlots:     make(chan struct{}, maxConcurrentCharges),
		refusals:        refusals,
		fallback:        newMemoryBudget(clock.time, replicas, 2*replicas),
		metrics:         newRedisBudgetMetrics(c.Registry),
		stop:            stop,
	}
	s.batcher = newBatcher(client, clock, trip, s.degraded.Load, s.redisDown, s.metrics.batches)
	s.done.Go(func() { s.watch(ctx, tick) })
	return s, nil
}

// Close stops the counter. Nobody calls it any more.
func (s *RedisBudget) Close() {
	s.stop()
	s.done.Wait()
	s.batcher.close()
}

// Degraded reports whether Redis is away.
func (s *RedisBudget) Degraded() bool { return s.degraded.Load() }

// Admit implements Budget.
func (s *RedisBudget) Admit(ctx context.Context, accountID, keyID string, p Plan) (Usage, *Refusal) {
	if s.degraded.Load() {
		return s.fallback.Admit(ctx, accountID, keyID, p)
	}
	asked := s.config.Now()
	for _, who := range [...]refusalKey{{AccountDay, accountID}, {KeyMinute, keyID}} {
		if usage, refusal := s.cachedRefusal(asked, who, 1, &p); refusal != nil {
			return usage, refusal
		}
	}
	usage, refusal, err := s.batcher.admit(accountID, keyID, p)
	if err != nil {
		return s.fallback.Admit(ctx, accountID, keyID, p)
	}
	if refusal != nil {
		who := refusalKey{AccountDay, accountID}
		if refusal.Ceiling == KeyMinute {
			who = refusalKey{KeyMinute, keyID}
		}
		s.cacheRefusal(asked, who, 1, usage, *refusal)
	}
	return usage, refusal
}

// Usage implements Budget.
func (s *RedisBudget) Usage(ctx context.Context, accountID string) Usage {
	if !s.degraded.Load() {
		if usage, _, err := s.batcher.admit(accountID, "", Plan{}); err == nil {
			return usage
		}
	}
	return s.fallback.Usage(ctx, accountID)
}

// remember keeps a refusal. It counts from before the question was sent, so that it ends no later than for Redis.
func (s *RedisBudget) cacheRefusal(asked time.Time, who refusalKey, cost int, usage Usage, refusal Refusal) {
	s.refusals.Set(who, cachedRefusal{refusal: refusal, cost: cost, usage: usage, until: asked.Add(refusal.RetryAfter)})
}

// recall returns a refusal that still holds. One of a limit that the plan no longer has does not.
func (s *RedisBudget) cachedRefusal(now time.Time, who refusalKey, cost int, p *Plan) (Usage, *Refusal) {
	r, ok := s.refusals.GetIfPresent(who)
	if !ok || !now.Before(r.until) || cost < r.cost || r.refusal.Limit != p.limit(r.refusal.Ceiling) {
		return Usage{}, nil
	}
	s.metrics.remembered.Inc()
	refusal := r.refusal
	refusal.RetryAfter = r.until.Sub(now)
	r.usage.At = r.usage.At.Add(r.refusal.RetryAfter - refusal.RetryAfter)
	return r.usage, &refusal
}

// ChargeLiveCalls implements Budget. The account and the property live on different servers of a cluster, so it takes two
// questions; what the property refuses is given back to the account. The other way round, an account that keeps asking
// beyond its day would take from the property what others have of it.
func (s *RedisBudget) ChargeLiveCalls(ctx context.Context, accountID, propertyID string, calls int, p Plan) *Refusal {
	s.chargeSlots <- struct{}{}
	defer func() { <-s.chargeSlots }()
	if s.degraded.Load() {
		return s.fallback.ChargeLiveCalls(ctx, accountID, propertyID, calls, p)
	}
	asked, who := s.config.Now(), refusalKey{PropertyMinute, propertyID}
	if _, refusal := s.cachedRefusal(asked, who, calls, &p); refusal != nil {
		return refusal
	}
	refusal, err := s.chargeBoth(accountID, propertyID, calls, &p)
	switch {
	case err != nil:
		s.redisDown(err)
		return s.fallback.ChargeLiveCalls(ctx, accountID, propertyID, calls, p)
	case refusal != nil && refusal.Ceiling == PropertyMinute:
		// One of the account is not remembered: calls that are given back end it before its time.
		s.cacheRefusal(asked, who, calls, Usage{}, *refusal)
	}
	return refusal
}

func (s *RedisBudget) chargeBoth(accountID, propertyID string, calls int, p *Plan) (*Refusal, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	now, wait, err := s.charge(ctx, UsageCount{AccountID: accountID, Calls: calls}, p.SearchConsoleCallsPerDay)
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		return &Refusal{AccountCalls, p.SearchConsoleCallsPerDay, wait}, nil
	}
	limit := p.LiveCallsPerMinutePerProperty
	result, err := s.propertyLimiter.AllowN(ctx, liveKey(propertyID), redis_rate.PerMinute(max(1, limit)), calls)
	if err == nil && result.Allowed == calls && limit > 0 {
		return nil, nil
	}
	// Nothing was called, so nothing may stay charged.
	back := refundCount(accountID, calls, now)
	if err != nil {
		s.fallback.add(back)
	} else {
		err = s.refund(ctx, back)
	}
	if err != nil {
		return nil, fmt.Errorf("charge the live calls of a property: %w", err)
	}
	return &Refusal{PropertyMinute, limit, max(result.RetryAfter, time.Millisecond)}, nil
}

// liveKey is what the minute of a property is called by.
func liveKey(propertyID string) string { return "sara:live:" + propertyID }

// RefundLiveCalls implements Budget. What Redis cannot be told now it is given when it is back; until then this replica's share
// has it.
func (s *RedisBudget) RefundLiveCalls(_ context.Context, accountID string, calls int, charged time.Time) {
	s.chargeSlots <- struct{}{}
	defer func() { <-s.chargeSlots }()
	back := refundCount(accountID, calls, charged)
	if s.degraded.Load() {
		s.fallback.add(back)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	if err := s.refund(ctx, back); err != nil {
		s.redisDown(err)
	}
}

// giveBack adds to Redis, or else to what it will be given, which may go below zero: it was charged there. ctx has a
// deadline.
func (s *RedisBudget) refund(ctx context.Context, back UsageCount) error {
	_, _, err := s.charge(ctx, back, unlimited)
	if err != nil {
		s.fallback.add(back)
	}
	return err
}

// unlimited is a ceiling that nothing reaches.
const unlimited = -1

// add adds to the counts of an account, and tells how long to wait if the calls would go over the ceiling. A count without
// windows is of now. ctx has a deadline.
func (s *RedisBudget) charge(ctx context.Context, c UsageCount, ceiling int) (now time.Time, wait time.Duration, err error) {
	for range 2 {
		asked := s.clock.now()
		var numbers []int64
		numbers, err = s.chargeScript.Run(ctx, s.client, []string{accountKey(c.AccountID)},
			s.clock.deadline(ctx), ceiling, c.Calls, c.InHour, c.InDay, c.Hour, c.Day).Int64Slice()
		if err == nil {
			now, numbers, err = s.clock.read(numbers, asked)
		}
		if err == nil {
			return now, time.Duration(numbers[0]) * time.Microsecond, nil
		}
		if !errors.Is(err, errExpired) {
			break
		}
	}
	return time.Time{}, 0, fmt.Errorf("charge the shared counter: %w", err)
}

// lost turns to the local share.
func (s *RedisBudget) redisDown(err error) {
	if !s.degraded.CompareAndSwap(false, true) {
		return
	}
	s.metrics.degraded.Set(1)
	s.config.Log.Warn("budgets: Redis is away, this replica gives out its own share", slog.Any("error", err))
}

// recover gives Redis what was counted without it, and lets it decide again as soon as it takes that. A request that was
// just being decided locally then is given with the next tick.
func (s *RedisBudget) watch(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
		away := s.degraded.Load()
		if away && s.probe(ctx) != nil || s.syncFallback(ctx) != nil || !away {
			continue
		}
		s.degraded.Store(false)
		s.metrics.degraded.Set(0)
		s.config.Log.Warn("budgets: Redis is back")
	}
}

// probe asks whether Redis can be written to, all of it.
func (s *RedisBudget) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if cluster, ok := s.config.Client.(*redis.ClusterClient); ok {
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			info, err := node.ClusterInfo(ctx).Result()
			if err == nil && !strings.Contains(info, "cluster_state:ok") {
				err = errors.New("the cluster does not serve all of its slots")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	_, _, err := s.charge(ctx, UsageCount{AccountID: "probe"}, unlimited)
	return err
}

// merge adds to Redis what was used of the local shares and is not there yet.
func (s *RedisBudget) syncFallback(ctx context.Context) error {
	for _, c := range s.fallback.unsynced() {
		ctx, cancel := context.WithTimeout(ctx, s.timeout)
		_, _, err := s.charge(ctx, c.used.minus(c.synced), unlimited)
		cancel()
		if err != nil {
			return err
		}
		s.fallback.markSynced(c.used)
	}
	return nil
}

type redisBudgetMetrics struct {
	degraded   prometheus.Gauge
	remembered prometheus.Counter
	batches    batchMetrics
}

func newRedisBudgetMetrics(registry prometheus.Registerer) redisBudgetMetrics {
	m := redisBudgetMetrics{
		degraded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sara_budget_degraded", Help: "1 while Redis is away and budgets are this replica's own share.",
		}),
		remembered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_budget_remembered_refusals_total", Help: "Requests refused from memory, without asking Redis.",
		}),
		batches: newBatchMetrics(registry),
	}
	registry.MustRegister(m.degraded, m.remembered)
	return m
}
