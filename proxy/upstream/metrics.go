package upstream

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of one Gateway. Outcomes are "ok", the kinds of Error, and "internal" for credentials that could not be
// read.
type metrics struct {
	outcomes  [methods][kinds + 2]prometheus.Counter
	seconds   [methods]prometheus.Observer
	refreshes [kinds + 2]prometheus.Counter
	retries   prometheus.Counter

	analytics, indexing, token breakerMetrics
}

// breakerMetrics are those of the circuit breakers in one role.
type breakerMetrics struct {
	open    prometheus.Gauge
	refused prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sara_upstream_calls_total",
		Help: "Search Console calls by method and outcome, without their retries and without calls that an open circuit breaker refused.",
	}, []string{"method", "outcome"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "sara_upstream_call_duration_seconds",
		Help:    "Duration of Search Console calls with their retries and token refreshes, by method.",
		Buckets: []float64{.05, .1, .2, .4, .8, 1.5, 3, 6, 12, 25, 60},
	}, []string{"method"})
	refreshes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sara_upstream_token_refreshes_total",
		Help: "Requests for an access token by outcome.",
	}, []string{"outcome"})
	m := &metrics{
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_upstream_retries_total",
			Help: "Attempts after the first one.",
		}),
	}
	for i := range m.refreshes {
		m.refreshes[i] = refreshes.WithLabelValues(outcomeName(i))
		for j := range m.outcomes {
			m.outcomes[j][i] = calls.WithLabelValues(method(j).String(), outcomeName(i))
		}
	}
	for i := range m.seconds {
		m.seconds[i] = seconds.WithLabelValues(method(i).String())
	}
	collectors := append(m.makeBreakers(), calls, refreshes, seconds, m.retries)
	if registerer == nil {
		return m, nil
	}
	var errs []error
	for _, collector := range collectors {
		errs = append(errs, registerer.Register(collector))
	}
	return m, errors.Join(errs...)
}

// makeBreakers makes the metrics of the circuit breakers, and returns them for registration.
func (m *metrics) makeBreakers() []prometheus.Collector {
	open := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sara_upstream_breaker_open",
		Help: "Circuit breakers that are open, by the role of their host.",
	}, []string{"host_role"})
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sara_upstream_breaker_refused_total",
		Help: "Calls and token requests that an open circuit breaker refused.",
	}, []string{"host_role"})
	of := func(role string) breakerMetrics {
		return breakerMetrics{open: open.WithLabelValues(role), refused: refused.WithLabelValues(role)}
	}
	m.analytics, m.indexing, m.token = of("search_console"), of("indexing"), of("token")
	return []prometheus.Collector{open, refused}
}

func (m *metrics) call(of method, err error, took time.Duration) {
	m.outcomes[of][outcome(err)].Inc()
	m.seconds[of].Observe(took.Seconds())
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
