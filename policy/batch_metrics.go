package policy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// batchMetrics is how well admissions share round trips, and what those cost: both noted once a round trip, so that a
// request pays nothing for them.
type batchMetrics struct {
	requests, seconds prometheus.Histogram
}

func newBatchMetrics(registry prometheus.Registerer) batchMetrics {
	m := batchMetrics{
		requests: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sara_budget_batch_requests", Help: "Requests that were admitted or refused in one round trip to Redis.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 9), // up to maxBatch
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sara_budget_round_trip_seconds", Help: "How long Redis took to decide on a batch of requests, or not to.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .15}, // up to tripTimeout
		}),
	}
	registry.MustRegister(m.requests, m.seconds)
	return m
}

func (m *batchMetrics) observe(requests int, took time.Duration) {
	m.requests.Observe(float64(requests))
	m.seconds.Observe(took.Seconds())
}
