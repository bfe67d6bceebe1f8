package upstream

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of one Client. Outcomes are "ok", the kinds of Error, and "internal" for credentials that could not be
// read.
type metrics struct {
	outcomes  [kinds + 2]prometheus.Counter
	refreshes [kinds + 2]prometheus.Counter
	seconds   prometheus.Histogram
	retries   prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sara_upstream_calls_total",
		Help: "Search Console calls by outcome, retries not counted.",
	}, []string{"outcome"})
	refreshes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sara_upstream_token_refreshes_total",
		Help: "Requests for an access token by outcome.",
	}, []string{"outcome"})
	m := &metrics{
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "sara_upstream_call_duration_seconds",
			Help:    "Duration of Search Console calls with their retries and token refreshes.",
			Buckets: []float64{.05, .1, .2, .4, .8, 1.5, 3, 6, 12, 25, 60},
		}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_upstream_retries_total",
			Help: "Attempts after the first one.",
		}),
	}
	for i := range m.outcomes {
		m.outcomes[i] = calls.WithLabelValues(outcomeName(i))
		m.refreshes[i] = refreshes.WithLabelValues(outcomeName(i))
	}
	if registerer == nil {
		return m, nil
	}
	var errs []error
	for _, collector := range []prometheus.Collector{calls, refreshes, m.seconds, m.retries} {
		errs = append(errs, registerer.Register(collector))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) call(err error, took time.Duration) {
	m.outcomes[outcome(err)].Inc()
	m.seconds.Observe(took.Seconds())
}

func (m *metrics) tokenRefresh(err error) { m.refreshes[outcome(err)].Inc() }

// outcome numbers how a call ended: its Kind, then ok, then internal.
func outcome(err error) int {
	if err == nil {
		return kinds
	}
	if failure, ok := errors.AsType[*Error](err); ok {
		return int(failure.Kind)
	}
	return kinds + 1
}

func outcomeName(outcome int) string {
	switch outcome {
	case kinds:
		return "ok"
	case kinds + 1:
		return "internal"
	default:
		return Kind(outcome).String()
	}
}
