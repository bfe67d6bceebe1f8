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

	analytics, indexing [levels]breakerMetrics
	token               breakerMetrics
	breakersOpen        *prometheus.GaugeVec
	collectors          []prometheus.Collector
}

// breakerMetrics are those of the circuit breakers in one role.
type breakerMetrics struct {
	open    prometheus.Gauge
	refused prometheus.Counter
}

// note counts a breaker that a failure has opened, or that has closed.
func (m breakerMetrics) note(failure error) {
	if failure != nil {
		m.open.Inc()
	} else {
		m.open.Dec()
	}
}

func newMetrics() *metrics {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sara_upstream_calls_total",
		Help: "Search Console calls by method and outcome, excluding retries and calls that an open circuit breaker refused.",
	}, []string{"method", "outcome"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "sara_upstream_call_duration_seconds",
		Help:    "Duration of Search Console calls, including retries and token refreshes, by method.",
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
	m.collectors = []prometheus.Collector{m.makeBreakers(), calls, refreshes, seconds, m.retries}
	return m
}

// register registers the metrics, with the number of open circuits. A nil registerer exports nothing.
func (m *metrics) register(registerer prometheus.Registerer, analytics, indexing *circuits) error {
	if registerer == nil {
		return nil
	}
	var errs []error
	for _, collector := range append(m.collectors, openBreakers{m.breakersOpen, [...]*circuits{analytics, indexing}}) {
		errs = append(errs, registerer.Register(collector))
	}
	return errors.Join(errs...)
}

// openBreakers counts the open circuits at each scrape, because an unused circuit closes by the clock.
type openBreakers struct {
	*prometheus.GaugeVec
	circuits [2]*circuits
}

// Collect implements prometheus.Collector.
func (o openBreakers) Collect(metrics chan<- prometheus.Metric) {
	for _, c := range o.circuits {
		for level, n := range c.countOpen() {
			c.m[level].open.Set(float64(n))
		}
	}
	o.GaugeVec.Collect(metrics)
}

// makeBreakers makes the metrics of the circuit breakers, and returns those that only need to be registered.
func (m *metrics) makeBreakers() prometheus.Collector {
	m.breakersOpen = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sara_upstream_breaker_open",
		Help: "Open circuit breakers, by what they protect: a property, a connection, the whole API (search_console), " +
			"the same for sitemaps and inspections (indexing), or a token endpoint.",
	}, []string{"host_role"})
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sara_upstream_breaker_refused_total",
		Help: "Calls and token requests that an open circuit breaker refused, by what it protects.",
	}, []string{"host_role"})
	of := func(role string) breakerMetrics {
		return breakerMetrics{open: m.breakersOpen.WithLabelValues(role), refused: refused.WithLabelValues(role)}
	}
	m.analytics = [...]breakerMetrics{ofProperty: of("property"), ofConnection: of("connection"), ofUpstream: of("search_console")}
	m.indexing = [...]breakerMetrics{ofProperty: of("indexing_property"), ofConnection: of("indexing_connection"), ofUpstream: of("indexing")}
	m.token = of("token")
	return refused
}

func (m *metrics) call(of method, err error, took time.Duration) {
	m.outcomes[of][outcome(err)].Inc()
	m.seconds[of].Observe(took.Seconds())
}

func (m *metrics) tokenRefresh(err error) { m.refreshes[outcome(err)].Inc() }

// outcome maps how a call ended to a number: its Kind, then ok, then internal.
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
