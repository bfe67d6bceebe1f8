package proxy

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// metrics are what the edge counts. Labels come from the route table and from status codes, never from requests, so that
// no client can make series.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	panics   prometheus.Counter
}

func newMetrics(registry *prometheus.Registry, version string) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sara_requests_total", Help: "Requests answered, by operation, status and error code.",
		}, []string{"operation", "status", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sara_request_duration_seconds", Help: "Time from a request's last byte to its answer, by operation.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25},
		}, []string{"operation"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sara_requests_in_flight", Help: "Requests being answered.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_panics_total", Help: "Requests that ran into a bug of ours.",
		}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sara_build_info", Help: "1, labelled with the version.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	registry.MustRegister(m.requests, m.duration, m.inFlight, m.panics, build)
	return m
}

// successes are the series of one operation's successes. Nearly every request counts in them, and finding a series by its
// labels takes longer than counting.
type successSeries struct {
	answered, unchanged prometheus.Counter // with 200, with 304
	duration            prometheus.Observer
}

func (m *metrics) successSeriesOf(operation string) *successSeries {
	counter := func(status int) prometheus.Counter {
		return m.requests.WithLabelValues(operation, strconv.Itoa(status), "")
	}
	return &successSeries{answered: counter(fasthttp.StatusOK), unchanged: counter(fasthttp.StatusNotModified),
		duration: m.duration.WithLabelValues(operation)}
}

// observe counts a request that was answered, with the error code unless it is empty.
func (m *metrics) observe(r *route, status int, code string, took time.Duration) {
	switch known := r.series; {
	case known != nil && status == fasthttp.StatusOK:
		known.answered.Inc()
		known.duration.Observe(took.Seconds())
	case known != nil && status == fasthttp.StatusNotModified:
		known.unchanged.Inc()
		known.duration.Observe(took.Seconds())
	default:
		m.requests.WithLabelValues(r.label(), strconv.Itoa(status), code).Inc()
		m.duration.WithLabelValues(r.label()).Observe(took.Seconds())
	}
}

// finish counts and logs a request that was answered, with err if that was an error.
func (s *Server) record(c *call, err error) {
	took := s.config.Now().Sub(c.started)
	status := c.http.Response.StatusCode()
	code := ""
	ctx := context.Background()
	if err != nil {
		f := apiErrorOf(err)
		code = f.code
		s.logCause(ctx, c, f)
	}
	s.metrics.observe(c.route, status, code, took)
	if c.span != nil {
		c.endSpan(status, code)
	}
	s.access.write(c, status, code, took)
}

// report logs what a failure hides from the client. A refusal hides nothing: it is an answer, and no trouble of ours.
func (s *Server) logCause(ctx context.Context, c *call, f *apiError) {
	if f.cause == nil {
		return
	}
	level := slog.LevelWarn
	if f.code == codeInternal {
		level = slog.LevelError
	}
	var bug *panicError
	if errors.As(f, &bug) {
		s.metrics.panics.Inc()
	}
	s.config.Log.LogAttrs(ctx, level, "request failed", slog.String("request_id", c.id), slog.Any("error", f))
}
