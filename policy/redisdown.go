package policy

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// Degraded reports whether Redis is down, so that this replica admits its own share.
func (b *RedisBudget) Degraded() bool { return b.degraded.Load() }

// redisDown opens the circuit: from now on the fallback decides.
func (b *RedisBudget) redisDown(err error) {
	if !b.degraded.CompareAndSwap(false, true) {
		return
	}
	b.metrics.degraded.Set(1)
	b.config.Log.Warn("budgets: Redis is down, this replica admits its own share", slog.Any("error", err))
}

// watch probes Redis while it is down, adds what the fallback admitted, and closes the circuit once both succeed. A request
// that the fallback was still deciding at that moment is added on the next tick.
func (b *RedisBudget) watch(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
		down := b.degraded.Load()
		if down && b.probe(ctx) != nil || b.syncFallback(ctx) != nil || !down {
			continue
		}
		b.degraded.Store(false)
		b.metrics.degraded.Set(0)
		b.config.Log.Warn("budgets: Redis is back")
	}
}

// probe checks that all of Redis can be written to.
func (b *RedisBudget) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	if cluster, ok := b.config.Client.(*redis.ClusterClient); ok {
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
	_, _, err := b.charge(ctx, UsageCount{AccountID: "probe"}, unlimited)
	return err
}

// syncFallback adds to Redis what the fallback has admitted since the last time.
func (b *RedisBudget) syncFallback(ctx context.Context) error {
	for _, u := range b.fallback.unsynced() {
		ctx, cancel := context.WithTimeout(ctx, b.timeout)
		_, _, err := b.charge(ctx, u.used.minus(u.synced), unlimited)
		cancel()
		if err != nil {
			return err
		}
		b.fallback.markSynced(u.used)
	}
	return nil
}

type redisBudgetMetrics struct {
	degraded       prometheus.Gauge
	cachedRefusals prometheus.Counter
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
		batches: newBatchMetrics(registry),
	}
	registry.MustRegister(m.degraded, m.cachedRefusals)
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
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .15}, // up to roundTripTimeout
		}),
	}
	registry.MustRegister(m.requests, m.seconds)
	return m
}

func (m *batchMetrics) observe(requests int, took time.Duration) {
	m.requests.Observe(float64(requests))
	m.seconds.Observe(took.Seconds())
}
