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
var chargeScript string

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
	tripTimeout = 150 * time.Millisecond
	probeEvery  = time.Second
	maxCharging = 8 // charges of live calls at once; more than there are connections would time out for want of one
)

// Shared is a Budget that any number of replicas share through Redis, whose own clock decides the windows. It remembers a
// refusal until it ends, so that a client that keeps asking costs Redis nothing. While Redis does not answer, it gives out
// this replica's share from memory, half of that for upstream calls, and adds what was used to Redis when that is back. A
// share is given out once a window, however often Redis goes: nobody gets past an allowance twice over. The buckets of a
// minute are not added: they are full again before anybody could tell. A cluster counts as away while any of its nodes is.
type RedisBudget struct {
	config   RedisBudgetConfig
	trip     time.Duration
	client   onceClient
	clock    *serverClock
	batcher  *batcher
	charge   *redis.Script
	buckets  *redis_rate.Limiter
	charging chan struct{} // a place for each charge of live calls that talks to Redis
	refusals memory[owner, remembered]
	local    *MemoryBudget
	metrics  redisBudgetMetrics

	down  atomic.Bool
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// owner is who was refused by a ceiling.
type owner struct {
	ceiling Ceiling // of an account always AccountDay
	id      string
}

// remembered is a refusal and until when, by this process' clock, it holds.
type remembered struct {
	refusal Refusal
	cost    int // of what was refused: less than it may fit
	usage   Usage
	until   time.Time
}

const rememberedRefusals = 100_000

var _ Budget = (*RedisBudget)(nil)

// NewRedisBudget returns a counter over Redis, which need not answer yet. Close it before its client.
func NewRedisBudget(c RedisBudgetConfig) (*RedisBudget, error) {
	return newRedisBudget(c, tripTimeout, time.Tick(probeEvery))
}

// newShared takes the longest that a round trip may take, and the ticks at which to look whether Redis is back.
func newRedisBudget(c RedisBudgetConfig, trip time.Duration, tick <-chan time.Time) (*RedisBudget, error) {
	refusals, err := otter.New(&otter.Options[owner, remembered]{MaximumSize: rememberedRefusals})
	if err != nil {
		return nil, fmt.Errorf("make a memory of refusals: %w", err)
	}
	replicas := max(1, c.Replicas)
	client := onceClient{c.Client}
	clock := &serverClock{now: c.Now}
	ctx, stop := context.WithCancel(context.Background())
	s := &RedisBudget{
		config:   c,
		trip:     trip,
		client:   client,
		clock:    clock,
		charge:   redis.NewScript(chargeScript),
		buckets:  redis_rate.NewLimiter(client),
		charging: make(chan struct{}, maxCharging),
		refusals: refusals,
		local:    newMemoryBudget(clock.time, replicas, 2*replicas),
		metrics:  newRedisBudgetMetrics(c.Registry),
		stop:     stop,
	}
	s.batcher = newBatcher(client, clock, trip, s.down.Load, s.lost, s.metrics.batches)
	s.ended.Go(func() { s.recover(ctx, tick) })
	return s, nil
}

// Close stops the counter. Nobody calls it any more.
func (s *RedisBudget) Close() {
	s.stop()
	s.ended.Wait()
	s.batcher.close()
}

// Degraded reports whether Redis is away.
func (s *RedisBudget) Degraded() bool { return s.down.Load() }

// Admit implements Budget.
func (s *RedisBudget) Admit(ctx context.Context, accountID, keyID string, p Plan) (Usage, *Refusal) {
	if s.down.Load() {
		return s.local.Admit(ctx, accountID, keyID, p)
	}
	asked := s.config.Now()
	for _, who := range [...]owner{{AccountDay, accountID}, {KeyMinute, keyID}} {
		if usage, refusal := s.recall(asked, who, 1, &p); refusal != nil {
			return usage, refusal
		}
	}
	usage, refusal, err := s.batcher.admit(accountID, keyID, p)
	if err != nil {
		return s.local.Admit(ctx, accountID, keyID, p)
	}
	if refusal != nil {
		who := owner{AccountDay, accountID}
		if refusal.Ceiling == KeyMinute {
			who = owner{KeyMinute, keyID}
		}
		s.remember(asked, who, 1, usage, *refusal)
	}
	return usage, refusal
}

// Usage implements Budget.
func (s *RedisBudget) Usage(ctx context.Context, accountID string) Usage {
	if !s.down.Load() {
		if usage, _, err := s.batcher.admit(accountID, "", Plan{}); err == nil {
			return usage
		}
	}
	return s.local.Usage(ctx, accountID)
}

// remember keeps a refusal. It counts from before the question was sent, so that it ends no later than for Redis.
func (s *RedisBudget) remember(asked time.Time, who owner, cost int, usage Usage, refusal Refusal) {
	s.refusals.Set(who, remembered{refusal: refusal, cost: cost, usage: usage, until: asked.Add(refusal.RetryAfter)})
}

// recall returns a refusal that still holds. One of a limit that the plan no longer has does not.
func (s *RedisBudget) recall(now time.Time, who owner, cost int, p *Plan) (Usage, *Refusal) {
	r, ok := s.refusals.GetIfPresent(who)
	if !ok || !now.Before(r.until) || cost < r.cost || r.refusal.Limit != p.ceiling(r.refusal.Ceiling) {
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
	s.charging <- struct{}{}
	defer func() { <-s.charging }()
	if s.down.Load() {
		return s.local.ChargeLiveCalls(ctx, accountID, propertyID, calls, p)
	}
	asked, who := s.config.Now(), owner{PropertyMinute, propertyID}
	if _, refusal := s.recall(asked, who, calls, &p); refusal != nil {
		return refusal
	}
	refusal, err := s.chargeBoth(accountID, propertyID, calls, &p)
	switch {
	case err != nil:
		s.lost(err)
		return s.local.ChargeLiveCalls(ctx, accountID, propertyID, calls, p)
	case refusal != nil && refusal.Ceiling == PropertyMinute:
		// One of the account is not remembered: calls that are given back end it before its time.
		s.remember(asked, who, calls, Usage{}, *refusal)
	}
	return refusal
}

func (s *RedisBudget) chargeBoth(accountID, propertyID string, calls int, p *Plan) (*Refusal, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.trip)
	defer cancel()
	now, wait, err := s.add(ctx, UsageCount{AccountID: accountID, Calls: calls}, p.SearchConsoleCallsPerDay)
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		return &Refusal{AccountCalls, p.SearchConsoleCallsPerDay, wait}, nil
	}
	limit := p.LiveCallsPerMinutePerProperty
	result, err := s.buckets.AllowN(ctx, liveKey(propertyID), redis_rate.PerMinute(max(1, limit)), calls)
	if err == nil && result.Allowed == calls && limit > 0 {
		return nil, nil
	}
	// Nothing was called, so nothing may stay charged.
	back := returned(accountID, calls, now)
	if err != nil {
		s.local.add(back)
	} else {
		err = s.giveBack(ctx, back)
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
	s.charging <- struct{}{}
	defer func() { <-s.charging }()
	back := returned(accountID, calls, charged)
	if s.down.Load() {
		s.local.add(back)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.trip)
	defer cancel()
	if err := s.giveBack(ctx, back); err != nil {
		s.lost(err)
	}
}

// giveBack adds to Redis, or else to what it will be given, which may go below zero: it was charged there. ctx has a
// deadline.
func (s *RedisBudget) giveBack(ctx context.Context, back UsageCount) error {
	_, _, err := s.add(ctx, back, unlimited)
	if err != nil {
		s.local.add(back)
	}
	return err
}

// unlimited is a ceiling that nothing reaches.
const unlimited = -1

// add adds to the counts of an account, and tells how long to wait if the calls would go over the ceiling. A count without
// windows is of now. ctx has a deadline.
func (s *RedisBudget) add(ctx context.Context, c UsageCount, ceiling int) (now time.Time, wait time.Duration, err error) {
	for range 2 {
		asked := s.clock.now()
		var numbers []int64
		numbers, err = s.charge.Run(ctx, s.client, []string{accountKey(c.AccountID)},
			s.clock.deadline(ctx), ceiling, c.Calls, c.InHour, c.InDay, c.Hour, c.Day).Int64Slice()
		if err == nil {
			now, numbers, err = s.clock.read(numbers, asked)
		}
		if err == nil {
			return now, time.Duration(numbers[0]) * time.Microsecond, nil
		}
		if !errors.Is(err, errLate) {
			break
		}
	}
	return time.Time{}, 0, fmt.Errorf("charge the shared counter: %w", err)
}

// lost turns to the local share.
func (s *RedisBudget) lost(err error) {
	if !s.down.CompareAndSwap(false, true) {
		return
	}
	s.metrics.degraded.Set(1)
	s.config.Log.Warn("budgets: Redis is away, this replica gives out its own share", slog.Any("error", err))
}

// recover gives Redis what was counted without it, and lets it decide again as soon as it takes that. A request that was
// just being decided locally then is given with the next tick.
func (s *RedisBudget) recover(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
		away := s.down.Load()
		if away && s.probe(ctx) != nil || s.merge(ctx) != nil || !away {
			continue
		}
		s.down.Store(false)
		s.metrics.degraded.Set(0)
		s.config.Log.Warn("budgets: Redis is back")
	}
}

// probe asks whether Redis can be written to, all of it.
func (s *RedisBudget) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.trip)
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
	_, _, err := s.add(ctx, UsageCount{AccountID: "probe"}, unlimited)
	return err
}

// merge adds to Redis what was used of the local shares and is not there yet.
func (s *RedisBudget) merge(ctx context.Context) error {
	for _, c := range s.local.changes() {
		ctx, cancel := context.WithTimeout(ctx, s.trip)
		_, _, err := s.add(ctx, c.used.since(c.kept), unlimited)
		cancel()
		if err != nil {
			return err
		}
		s.local.keep(c.used)
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
