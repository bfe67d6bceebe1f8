package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/redisconn"
	"sara/proxy"
	"sara/translate"
)

const (
	// refreshInterval is how often a replica looks for counts. Mostly another replica has stored some.
	refreshInterval = 20 * time.Second
	// startTimeout bounds the first look of a replica, which delays its start.
	startTimeout = 3 * time.Second
	// The metric counts budgets from fullPercent on; the status lists them from nearPercent on.
	fullPercent = 90
)

// Metrics exports the parts of the status that alerts need, never by customer. A scrape reads nothing: it shows what Refresh has
// found. A part that could not be read is absent until it can be, and counted as an error.
type Metrics struct {
	view view // its time is set for each look
	now  func() time.Time
	log  *slog.Logger

	lag, behind, collected, indexBehind, unhealthy, sealed, nearLimit prometheus.Gauge

	errors prometheus.Counter

	sealedTotal atomic.Int64

	nextCount time.Time // by this replica, unless another stores a look
	nextCheck time.Time // of the credentials
	checked   bool      // and there is a secret key

	mu    sync.Mutex // guards shown
	shown []prometheus.Gauge
}

var _ prometheus.Collector = (*Metrics)(nil)

// Register adds a degradation to the configuration, and registers the metrics of the database's connection pool, and those of the
// status, which it refreshes once. The counts of the budgets are in redis; nil: in the database. The caller runs Watch.
func Register(c *proxy.Config, redis redisconn.Client) (*Metrics, error) {
	calendar, err := translate.NewCalendar()
	if err != nil {
		return nil, err
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &Metrics{
		view: view{store: c.Store, plans: c.Admission.Plans, calendar: calendar, counted: sharedCounts{client: redis, none: redis == nil}},
		now:  c.Now, log: c.Log,
		lag: gauge("sara_archive_lag_days", "Days that the most delayed archive is behind, of properties that were ever collected."),
		behind: gauge("sara_archive_properties_behind",
			"Properties whose archive is two days or more behind, or that were added two days ago and never collected."),
		collected: gauge("sara_archive_collected_timestamp_seconds", "Start of the newest run that completed a property."),
		indexBehind: gauge("sara_index_properties_behind",
			"Properties whose index coverage is seven days old or older, or that were added seven days ago and never inspected."),
		unhealthy: gauge("sara_connections_unhealthy", "Connections to Search Console whose credentials fail."),
		sealed:    gauge("sara_connections_sealed", "Connections to Search Console whose stored credentials no secret key opens."),
		nearLimit: gauge("sara_accounts_near_limit", "Accounts that have used 90 % or more of a budget of the hour or the day."),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_status_errors_total", Help: "Parts of the status that could not be read; their metrics are missing meanwhile.",
		}),
	}
	for _, pool := range c.Store.Collectors() {
		err = errors.Join(err, c.Registry.Register(pool))
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	m.Refresh(ctx)
	c.Health.Degradations = append(c.Health.Degradations, proxy.Degradation{Reason: "credentials", Active: m.withoutCredentials})
	return m, errors.Join(err, c.Registry.Register(m))
}

// withoutCredentials describes the connections that the last look could not open.
func (m *Metrics) withoutCredentials() string {
	if n := m.sealedTotal.Load(); n > 0 {
		return fmt.Sprintf("no secret key opens the credentials of %s: stored data answers for the properties", english.Plural(int(n), "connection", ""))
	}
	return ""
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, metric := range [...]prometheus.Metric{m.lag, m.behind, m.collected, m.indexBehind, m.unhealthy, m.sealed, m.nearLimit, m.errors} {
		descriptions <- metric.Desc()
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	shown := m.shown
	m.mu.Unlock()
	for _, gauge := range shown {
		metrics <- gauge
	}
	metrics <- m.errors
}

// Watch refreshes the metrics until ctx ends.
func (m *Metrics) Watch(ctx context.Context) {
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.Refresh(ctx)
		}
	}
}

// Refresh adopts the last look of any replica, or looks and stores that if it is due. It is not safe for concurrent use.
func (m *Metrics) Refresh(ctx context.Context) {
	v := m.view
	v.now = m.now()
	m.checkCredentials(ctx, v)
	c, ok := v.last(ctx)
	if !ok || !v.now.Before(c.Due) {
		if v.now.Before(m.nextCount) {
			return // its own look could not be stored
		}
		c = v.count(ctx)
		c.Due = m.nextLook(v.now, c.isComplete())
		m.nextCount = c.Due
		if err := v.save(ctx, c); err != nil && c.isComplete() {
			m.log.WarnContext(ctx, "each replica counts for itself, because counts cannot be stored", slog.Any("error", err))
		}
	}
	for _, text := range c.problems() {
		m.errors.Inc()
		m.log.WarnContext(ctx, "a part of the status is missing in the metrics", slog.String("error", text))
	}
	m.show(c)
}

// nextLook returns the time of the next look, from the start of this one. One that failed is repeated after lookInterval.
func (m *Metrics) nextLook(began time.Time, complete bool) time.Time {
	if !complete {
		return began.Add(lookInterval)
	}
	return began.Add(max(lookInterval, lookShare*m.now().Sub(began)))
}

// checkCredentials tries the secret keys of this replica, which may differ from those of the one that looks.
func (m *Metrics) checkCredentials(ctx context.Context, v view) {
	if v.now.Before(m.nextCheck) {
		return
	}
	sealing, err := v.store.Sealing(ctx, 0)
	m.nextCheck, m.checked = m.nextLook(v.now, err == nil), err == nil && sealing.Checked()
	if err != nil {
		m.errors.Inc()
		m.log.WarnContext(ctx, "the credentials of the connections cannot be checked", slog.Any("error", err))
		return
	}
	if m.checked {
		m.sealed.Set(float64(sealing.Unopened.Total))
		m.sealedTotal.Store(int64(sealing.Unopened.Total))
	}
}

// show sets the gauges of the parts that were read.
func (m *Metrics) show(c counts) {
	var shown []prometheus.Gauge
	set := func(gauge prometheus.Gauge, value float64) {
		gauge.Set(value)
		shown = append(shown, gauge)
	}
	if c.Archive.Problem == nil {
		set(m.lag, float64(c.Lag))
		set(m.behind, float64(c.Archive.Counts.Late))
		if c.Collected != nil {
			set(m.collected, float64(c.Collected.Unix()))
		}
	}
	if c.Indexing.Problem == nil {
		set(m.indexBehind, float64(c.Indexing.Counts.Late))
	}
	if c.Outages.Problem == nil {
		set(m.unhealthy, float64(c.Outages.Failing))
	}
	if c.Budgets.Problem == nil {
		set(m.nearLimit, float64(c.Full))
	}
	if m.checked {
		shown = append(shown, m.sealed)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shown = shown
}
