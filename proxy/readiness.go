package proxy

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// readiness exports the state of a server as metrics.
type readiness struct {
	health          *health
	ready, degraded *prometheus.Desc
}

func newReadiness(h *health) *readiness {
	return &readiness{
		health:   h,
		ready:    prometheus.NewDesc("sara_ready", "1 while load balancers should send requests, degraded or not; /readyz then answers 200.", nil, nil),
		degraded: prometheus.NewDesc("sara_degraded", "1 while the server answers without something, by what is missing.", []string{"reason"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (r *readiness) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- r.ready
	descriptions <- r.degraded
}

// Collect implements prometheus.Collector.
func (r *readiness) Collect(metrics chan<- prometheus.Metric) {
	metrics <- prometheus.MustNewConstMetric(r.ready, prometheus.GaugeValue, one(r.health.unready(context.Background()) == nil))
	for _, d := range r.health.degradations {
		metrics <- prometheus.MustNewConstMetric(r.degraded, prometheus.GaugeValue, one(d.Active() != ""), d.Reason)
	}
}

// one returns 1 for true.
func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
