package fillbudget

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	refused map[string]prometheus.Counter // by reason
}

// newMetrics registers the metrics of a budget, unless registry is nil.
func newMetrics(registry prometheus.Registerer, b *Budget) (*metrics, error) {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			b.mu.Lock()
			defer b.mu.Unlock()
			return value()
		})
	}
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sara_fills_refused_total",
		Help: "Fills that could not start, by reason: too many were waiting, it waited too long, or the heap was above its watermark."}, []string{"reason"})
	m := &metrics{refused: make(map[string]prometheus.Counter)}
	for _, reason := range []string{reasonQueue, reasonPatience, reasonMemory} {
		m.refused[reason] = refused.WithLabelValues(reason)
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{
		refused,
		gauge("sara_fill_bytes_in_flight", "Bytes that running fills may hold.", func() float64 { return float64(b.used) }),
		gauge("sara_fills_waiting", "Fills waiting for memory.", func() float64 { return float64(b.requests.waiting + b.jobs.waiting) }),
	} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("register the metrics of fills: %w", err)
		}
	}
	return m, nil
}
