package policy

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// SharedConfig is what a Shared counter needs. Every member is required.
type SharedConfig struct {
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
)

// Shared is a Budget that any number of replicas share through Redis, whose own clock decides the windows. It remembers a
// refusal until it ends, so that a client that keeps asking costs Redis nothing. While Redis does not answer, it gives out
// this replica's share from memory, half of that for upstream calls, and adds what was used to Redis when that is back.
type Shared struct {
	config   SharedConfig
	batcher  *batcher
	charge   *redis.Script
	buckets  *redis_rate.Limiter
	refusals *otter.Cache[string, remembered]
	local    *Local
	metrics  sharedMetrics

	down  atomic.Bool
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// remembered is a refusal and until when, by this process' clock, it holds.
type remembered struct {
	refusal Refusal
	usage   Usage
	until   time.Time
}

const rememberedRefusals = 100_000

var _ Budget = (*Shared)(nil)

// NewShared returns a counter over Redis, which need not answer yet. Close it before its client.
func NewShared(c SharedConfig) (*Shared, error) {
	refusals, err := otter.New(&otter.Options[string, remembered]{MaximumSize: rememberedRefusals})
	if err != nil {
		return nil, fmt.Errorf("make a memory of refusals: %w", err)
	}
	replicas := max(1, c.Replicas)
	ctx, stop := context.WithCancel(context.Background())
	s := &Shared{
		config:   c,
		charge:   redis.NewScript(chargeScript),
		buckets:  redis_rate.NewLimiter(c.Client),
		refusals: refusals,
		local:    newShare(c.Now, replicas, 2*replicas),
		metrics:  newSharedMetrics(c.Registry),
		stop:     stop,
	}
	s.batcher = newBatcher(c.Client, s.down.Load, s.lost)
	s.ended.Go(func() {
		ticker := time.NewTicker(probeEvery)
		defer ticker.Stop()
		s.recover(ctx, ticker.C)
	})
	return s, nil
}

// Close stops the counter. Nobody calls it any more.
func (s *Shared) Close() {
	s.stop()
	s.ended.Wait()
	s.batcher.close()
}

// Degraded reports whether Redis is away.
func (s *Shared) Degraded() bool { return s.down.Load() }

// Admit implements Budget.
func (s *Shared) Admit(ctx context.Context, accountID, keyID string, p Plan) (Usage, *Refusal) {
	if s.down.Load() {
		return s.local.Admit(ctx, accountID, keyID, p)
	}
	asked := s.config.Now()
	if usage, refusal := s.recall(asked, accountID, keyID, &p); refusal != nil {
		s.metrics.remembered.Inc()
		return usage, refusal
	}
	usage, refusal, err := s.batcher.admit(accountID, keyID, p)
	if err != nil {
		return s.local.Admit(ctx, accountID, keyID, p)
	}
	if refusal != nil {
		s.remember(asked, accountID, keyID, usage, *refusal)
	}
	return usage, refusal
}

// Usage implements Budget.
func (s *Shared) Usage(ctx context.Context, accountID string) Usage {
	if !s.down.Load() {
		if usage, _, err := s.batcher.admit(accountID, "", Plan{}); err == nil {
			return usage
		}
	}
	return s.local.Usage(ctx, accountID)
}

// remember keeps a refusal. It counts from before the question was sent, so that it ends no later than for Redis.
func (s *Shared) remember(asked time.Time, accountID, keyID string, usage Usage, refusal Refusal) {
	owner := accountID
	if refusal.Ceiling == KeyMinute {
		owner = keyID
	}
	s.refusals.Set(owner, remembered{refusal: refusal, usage: usage, until: asked.Add(refusal.RetryAfter)})
}

// recall returns a refusal that still holds. One of a limit that the plan no longer has does not.
func (s *Shared) recall(now time.Time, accountID, keyID string, p *Plan) (Usage, *Refusal) {
	for _, owner := range [...]string{accountID, keyID} {
		r, ok := s.refusals.GetIfPresent(owner)
		if !ok || !now.Before(r.until) || r.refusal.Limit != p.ceiling(r.refusal.Ceiling) {
			continue
		}
		refusal := r.refusal
		refusal.RetryAfter = r.until.Sub(now)
		r.usage.At = r.usage.At.Add(r.refusal.RetryAfter - refusal.RetryAfter)
		return r.usage, &refusal
	}
	return Usage{}, nil
}

// ceiling returns how high a ceiling on requests is.
func (p *Plan) ceiling(c Ceiling) int {
	switch c {
	case KeyMinute:
		return p.RequestsPerMinutePerKey
	case AccountHour:
		return p.RequestsPerHour
	case AccountDay:
		return p.RequestsPerDay
	}
	return 0
}

// ChargeLive implements Budget. The account and the property live on different servers of a cluster, so it takes two
// questions; what the property refuses is given back to the account.
func (s *Shared) ChargeLive(ctx context.Context, accountID, propertyID string, calls int, p Plan) *Refusal {
	if s.down.Load() {
		return s.local.ChargeLive(ctx, accountID, propertyID, calls, p)
	}
	refusal, err := s.chargeBoth(accountID, propertyID, calls, p)
	if err != nil {
		s.lost(err)
		return s.local.ChargeLive(ctx, accountID, propertyID, calls, p)
	}
	return refusal
}

func (s *Shared) chargeBoth(accountID, propertyID string, calls int, p Plan) (*Refusal, error) {
	fits, now, err := s.add(Count{AccountID: accountID, Calls: calls}, p.SearchConsoleCallsPerDay)
	switch {
	case err != nil:
		return nil, err
	case !fits:
		return &Refusal{AccountCalls, p.SearchConsoleCallsPerDay, untilNext(now, daySeconds)}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), tripTimeout)
	defer cancel()
	limit := p.LiveCallsPerMinutePerProperty
	result, err := s.buckets.AllowN(ctx, "sara:live:"+propertyID, redis_rate.PerMinute(limit), calls)
	if err == nil && result.Allowed == calls {
		return nil, nil
	}
	// Nothing was called, so nothing may stay charged; if Redis is lost now, the account has paid for nothing.
	if _, _, undone := s.add(Count{AccountID: accountID, Day: int64(dayOf(now)), Calls: -calls}, 0); undone != nil && err == nil {
		err = undone
	}
	if err != nil {
		return nil, fmt.Errorf("charge the live calls of a property: %w", err)
	}
	return &Refusal{PropertyMinute, limit, max(result.RetryAfter, time.Millisecond)}, nil
}

// add adds to the counts of an account unless the calls go over the ceiling; 0 for none. Counts without windows are of now.
func (s *Shared) add(c Count, ceiling int) (fits bool, now time.Time, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), tripTimeout)
	defer cancel()
	numbers, err := s.charge.Run(ctx, s.config.Client, []string{accountKey(c.AccountID)},
		c.Calls, ceiling, c.Hour, c.Day, c.InHour, c.InDay).Int64Slice()
	if err == nil && len(numbers) != 3 {
		err = fmt.Errorf("it answers %d numbers, not 3", len(numbers))
	}
	if err != nil {
		return false, time.Time{}, fmt.Errorf("charge the shared counter: %w", err)
	}
	return numbers[0] == 1, time.Unix(numbers[1], numbers[2]*int64(time.Microsecond)), nil
}

// lost turns to the local share.
func (s *Shared) lost(err error) {
	if !s.down.CompareAndSwap(false, true) {
		return
	}
	s.metrics.degraded.Set(1)
	s.config.Log.Warn("budgets: Redis is away, this replica gives out its own share", slog.Any("error", err))
}

// recover gives Redis what was counted without it, and lets it decide again as soon as it takes that. A request that was
// just being decided locally then is given with the next tick.
func (s *Shared) recover(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
		away := s.down.Load()
		if away && s.probe(ctx) != nil || s.merge() != nil || !away {
			continue
		}
		s.down.Store(false)
		s.metrics.degraded.Set(0)
		s.config.Log.Warn("budgets: Redis is back")
	}
}

func (s *Shared) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tripTimeout)
	defer cancel()
	return s.config.Client.Ping(ctx).Err()
}

// merge adds the local counts to Redis. Counts that it could not add stay local.
func (s *Shared) merge() error {
	counts := s.local.take()
	for i, c := range counts {
		if _, _, err := s.add(c, 0); err != nil {
			s.local.restore(counts[i:], true)
			return err
		}
	}
	return nil
}

type sharedMetrics struct {
	degraded   prometheus.Gauge
	remembered prometheus.Counter
}

func newSharedMetrics(registry prometheus.Registerer) sharedMetrics {
	m := sharedMetrics{
		degraded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sara_budget_degraded", Help: "1 while Redis is away and budgets are this replica's own share.",
		}),
		remembered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_budget_remembered_refusals_total", Help: "Requests refused from memory, without asking Redis.",
		}),
	}
	registry.MustRegister(m.degraded, m.remembered)
	return m
}
