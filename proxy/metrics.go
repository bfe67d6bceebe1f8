package proxy

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"sara/policy/lru"
)

// metrics are the metrics of the edge. Their labels come from the route table and the status codes, never from requests, so
// that clients cannot create series.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	panics   prometheus.Counter
	failures *lru.Cache[failure, answerSeries] // of errors that have occurred
}

// A failure is what the series of an error depend on.
type failure struct {
	operation string
	status    int
	code      string
}

// An answerSeries counts answers of one kind, and observes how long they took. It is resolved once, since a lookup by labels takes longer than
// the increment: nearly every request needs that of a success, and refused clients often do not stop.
type answerSeries struct {
	answered prometheus.Counter
	duration prometheus.Observer
}

// maxFailures is more than there are: some twenty operations with a few codes each.
const maxFailures = 1 << 10

func newMetrics(registry *prometheus.Registry, version string) *metrics {
	m := &metrics{
		failures: lru.New[failure](lru.Config[answerSeries]{Weight: maxFailures}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sara_requests_total", Help: "Requests answered, by operation, status and error code.",
		}, []string{"operation", "status", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sara_request_duration_seconds", Help: "Time to answer a request, from its last byte received to the answer ready, by operation.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25},
		}, []string{"operation"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sara_requests_in_flight", Help: "Requests being answered.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_panics_total", Help: "Requests that ended in a panic.",
		}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sara_build_info", Help: "1, labelled with the version.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	registry.MustRegister(m.requests, m.duration, m.inFlight, m.panics, build)
	return m
}

// successSeries are those of an operation's successes: with 200, and with 304.
type successSeries struct{ ok, notModified answerSeries }

func (m *metrics) successSeriesOf(operation string) *successSeries {
	return &successSeries{m.resolve(operation, fasthttp.StatusOK, ""), m.resolve(operation, fasthttp.StatusNotModified, "")}
}

func (m *metrics) resolve(operation string, status int, code string) answerSeries {
	return answerSeries{m.requests.WithLabelValues(operation, strconv.Itoa(status), code), m.duration.WithLabelValues(operation)}
}

// observe counts an answered request. code is empty for a success.
func (m *metrics) observe(r *route, status int, code string, took time.Duration) {
	s := m.seriesOf(r, status, code)
	s.answered.Inc()
	s.duration.Observe(took.Seconds())
}

func (m *metrics) seriesOf(r *route, status int, code string) answerSeries {
	switch {
	case r.series != nil && status == fasthttp.StatusOK:
		return r.series.ok
	case r.series != nil && status == fasthttp.StatusNotModified:
		return r.series.notModified
	}
	f := failure{r.label(), status, code}
	if known, ok := m.failures.Get(f); ok {
		return known
	}
	resolved := m.resolve(f.operation, f.status, f.code)
	m.failures.Put(f, resolved)
	return resolved
}
