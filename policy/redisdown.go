package policy

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

// Degraded reports whether Redis is down, so that this replica admits its own share.
func (b *RedisBudget) Degraded() bool { return b.degraded.Load() }

// Notes describe what Redis has lost, and that more was admitted than the limits allow, if that was within the last quarter of
// an hour.
func (b *RedisBudget) Notes() []string { return b.losses.notes() }

// redisDown opens the circuit: from now on the fallback decides. The outage begins first: otherwise the fallback would divide what was left
// at the beginning of the previous one.
func (b *RedisBudget) redisDown(err error) {
	b.switching.Lock()
	defer b.switching.Unlock()
	if b.degraded.Load() {
		return
	}
	b.fallback.beginOutage()
	b.degraded.Store(true)
	b.metrics.degraded.Set(1)
	b.config.Log.Warn("budgets: Redis is down; this replica admits its own share", slog.Any("error", err))
}

// watch sends heartbeats while Redis is up, and restores what it has lost. While it is down, watch probes it, adds what the
// fallback admitted, and closes the circuit once both succeed. A request that the fallback was still deciding at that moment is
// added on the next tick.
func (b *RedisBudget) watch(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
		b.check(ctx)
		b.losses.flush()
	}
}

// rejoinTicks is how many ticks in a row Redis must answer after an outage before its counts are used again: by then every replica
// has noticed that it is back, and has added what it admitted. This replica has added what others have stored, too.
const rejoinTicks = 3

// fullSyncTicks is how many ticks pass until a replica compares all that it has counted today with Redis. This finds what heartbeats do
// not: a lost key, or a master of a cluster that lost its data.
const fullSyncTicks = 60

// check does the work of one tick.
func (b *RedisBudget) check(ctx context.Context) {
	down := b.degraded.Load()
	if down {
		b.shares.pending = true
		b.save(ctx, storeBatch)
		if b.probe(ctx) != nil {
			b.rejoining = 0
			return
		}
	}
	lost, err := b.beat(ctx)
	if err != nil && ctx.Err() == nil { // which shows nothing about Redis
		b.redisDown(err) // so that this replica notices an outage during which it has no requests
	}
	if b.sinceFull++; lost || b.sinceFull >= fullSyncTicks {
		b.fullSync = true
	}
	done := false
	if err == nil {
		done, err = b.catchUp(ctx)
	}
	if err != nil {
		b.rejoining = 0
		return
	}
	if !down {
		return
	}
	if b.rejoining++; done && (b.rejoining >= rejoinTicks || b.members.size() == 1) {
		b.rejoining = 0
		b.redisUp()
	}
}

// catchUp adds to Redis what it lacks. It reports whether this may be all: what others have stored can take several ticks.
func (b *RedisBudget) catchUp(ctx context.Context) (done bool, err error) {
	b.noticeBrought(ctx)
	if err := b.sync(ctx, b.fullSync); err != nil {
		return false, err
	}
	if b.fullSync {
		b.fullSync, b.sinceFull = false, 0
	}
	return b.adopt(ctx)
}

// redisUp closes the circuit.
func (b *RedisBudget) redisUp() {
	b.switching.Lock()
	defer b.switching.Unlock()
	b.degraded.Store(false)
	b.metrics.degraded.Set(0)
	b.config.Log.Warn("budgets: Redis is back")
}

// beat sends a heartbeat, and reports whether Redis has lost the one before.
func (b *RedisBudget) beat(ctx context.Context) (lost bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	return b.members.beat(ctx, b.config.Client, b.replica, b.clock.time())
}

// probe checks that all of Redis can be written to.
func (b *RedisBudget) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	if redisconn.IsCluster(b.config.Client) {
		err := redisconn.EachMaster(ctx, b.config.Client, func(ctx context.Context, node redis.Cmdable) error {
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
	_, _, err := b.charge(ctx, UsageCount{AccountID: "probe"}, nil)
	return err
}

type redisBudgetMetrics struct {
	degraded       prometheus.Gauge
	cachedRefusals prometheus.Counter
	leased         prometheus.Counter
	restored       prometheus.Counter
	over           *prometheus.CounterVec
	batches        batchMetrics
}

func newRedisBudgetMetrics(registry prometheus.Registerer) redisBudgetMetrics {
	m := redisBudgetMetrics{
		degraded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sara_budget_degraded", Help: "1 while Redis is down and this replica admits its own share of the budgets.",
		}),
		cachedRefusals: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_budget_remembered_refusals_total", Help: "Requests refused from the cache of refusals, without asking Redis.",
		}),
		leased: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_budget_leased_requests_total", Help: "Requests admitted from a lease of their key, without a wait for Redis.",
		}),
		restored: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_budget_restored_total", Help: "Requests and calls that this replica had counted in Redis and Redis had lost.",
		}),
		over: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sara_overadmitted_total", Help: "Requests and calls known to be admitted beyond a limit, each counted by one replica.",
		}, []string{"limit"}),
		batches: newBatchMetrics(registry),
	}
	for _, limit := range overLimits {
		m.over.WithLabelValues(limit) // an alert on its increase needs the series from the start
	}
	registry.MustRegister(m.degraded, m.cachedRefusals, m.leased, m.restored, m.over)
	return m
}

// batchMetrics measures how many admissions share a round trip, and how long that takes. It is updated once per round trip,
// so that a request pays nothing for it.
type batchMetrics struct {
	requests, seconds prometheus.Histogram
}

func newBatchMetrics(registry prometheus.Registerer) batchMetrics {
	m := batchMetrics{
		requests: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sara_budget_batch_requests", Help: "Requests decided in one round trip to Redis.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 9), // up to maxBatch
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sara_budget_round_trip_seconds", Help: "Duration of a round trip to Redis for a batch of requests, failed ones included.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .15}, // up to defaultTimeout
		}),
	}
	registry.MustRegister(m.requests, m.seconds)
	return m
}

func (m *batchMetrics) observe(requests int, took time.Duration) {
	if requests > 0 {
		m.requests.Observe(float64(requests))
	}
	m.seconds.Observe(took.Seconds())
}
