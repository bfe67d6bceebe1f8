package status

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/proxy"
	"sara/translate"
)

const (
	// cacheTime is how long a result is cached, so that scrapes of many replicas cost the database and Redis little.
	cacheTime = time.Minute
	// lookTimeout bounds how long a scrape waits, below Prometheus' usual scrape timeout.
	lookTimeout = 3 * time.Second
	// The metric counts budgets from fullPercent on; the status lists them from nearPercent on.
	fullPercent = 90
)

// metrics exports the parts of the status that alerts need, never by customer. Concurrent scrapes are safe. A part that could
// not be read is absent until it can be, and counted as an error.
type metrics struct {
	view view // its time is set for each look
	now  func() time.Time
	log  *slog.Logger

	lag, behind, collected, indexBehind, unhealthy, nearLimit prometheus.Gauge

	errors prometheus.Counter

	mu       sync.Mutex // guards the fields below; held while looking, so that concurrent scrapes share one look
	lookedAt time.Time
	shown    []prometheus.Gauge
}

var _ prometheus.Collector = (*metrics)(nil)

// Register registers the metrics of the database's connection pool, and those of the status.
func Register(c proxy.Config) error {
	calendar, err := translate.NewCalendar()
	if err != nil {
		return err
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		view: view{store: c.Store, plans: c.Plans, calendar: calendar, counted: sharedCounts{client: c.Redis, none: c.Redis == nil}},
		now:  c.Now, log: c.Log,
		lag:         gauge("sara_archive_lag_days", "Days that the most delayed archive is behind, of properties that were ever collected."),
		behind:      gauge("sara_archive_properties_behind", "Properties whose archive is two days or more behind, or that were added two days ago and never collected."),
		collected:   gauge("sara_archive_collected_timestamp_seconds", "Start of the newest run that completed a property."),
		indexBehind: gauge("sara_index_properties_behind", "Properties whose index coverage is seven days old or older, or that were added seven days ago and never inspected."),
		unhealthy:   gauge("sara_connections_unhealthy", "Connections to Search Console whose credentials fail."),
		nearLimit:   gauge("sara_accounts_near_limit", "Accounts that have used 90 % or more of a budget of the hour or the day."),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_status_errors_total", Help: "Parts of the status that could not be read; their metrics are missing meanwhile.",
		}),
	}
	for _, pool := range c.Store.Collectors() {
		err = errors.Join(err, c.Registry.Register(pool))
	}
	return errors.Join(err, c.Registry.Register(m))
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, metric := range [...]prometheus.Metric{m.lag, m.behind, m.collected, m.indexBehind, m.unhealthy, m.nearLimit, m.errors} {
		descriptions <- metric.Desc()
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.now(); m.lookedAt.IsZero() || now.Sub(m.lookedAt) >= cacheTime {
		m.lookedAt = now
		m.shown = m.look(now)
	}
	for _, gauge := range m.shown {
		metrics <- gauge
	}
	metrics <- m.errors
}

// look sets the gauges, and returns those that could be read.
func (m *metrics) look(now time.Time) (learned []prometheus.Gauge) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	v := m.view
	v.now = now
	for _, part := range [...]func(context.Context, view) ([]prometheus.Gauge, error){m.archive, m.indexing, m.connections, m.accounts} {
		gauges, err := part(ctx, v)
		if err != nil {
			m.errors.Inc()
			m.log.WarnContext(ctx, "a part of the status is missing in the metrics", slog.Any("error", err))
		}
		learned = append(learned, gauges...)
	}
	return learned
}

func (m *metrics) archive(ctx context.Context, v view) ([]prometheus.Gauge, error) {
	properties, err := v.properties(ctx)
	if err != nil {
		return nil, err
	}
	status := v.archive(properties, nil)
	worst := 0
	for _, lag := range status.Properties {
		if lag.LagDays != nil && lag.State != "not_collected" {
			worst = max(worst, *lag.LagDays)
		}
	}
	m.lag.Set(float64(worst))
	m.behind.Set(float64(status.Counts.Late))
	var newest time.Time
	for _, p := range properties {
		if at := p.State.CollectedAt; at != nil && at.After(newest) {
			newest = *at
		}
	}
	if newest.IsZero() {
		return []prometheus.Gauge{m.lag, m.behind}, nil
	}
	m.collected.Set(float64(newest.Unix()))
	return []prometheus.Gauge{m.lag, m.behind, m.collected}, nil
}

func (m *metrics) indexing(ctx context.Context, v view) ([]prometheus.Gauge, error) {
	status := v.indexing(ctx)
	if status.Problem != nil {
		return nil, errors.New(*status.Problem)
	}
	m.indexBehind.Set(float64(status.Counts.Late))
	return []prometheus.Gauge{m.indexBehind}, nil
}

func (m *metrics) connections(ctx context.Context, v view) ([]prometheus.Gauge, error) {
	outages, err := v.store.Outages(ctx)
	if err != nil {
		return nil, err
	}
	m.unhealthy.Set(float64(len(outages)))
	return []prometheus.Gauge{m.unhealthy}, nil
}

func (m *metrics) accounts(ctx context.Context, v view) ([]prometheus.Gauge, error) {
	var status Budgets
	if err := v.accountBudgets(ctx, &status); err != nil {
		return nil, err
	}
	full := 0
	for _, account := range status.Accounts {
		full += count(account.UsedPercent >= fullPercent)
	}
	m.nearLimit.Set(float64(full))
	return []prometheus.Gauge{m.nearLimit}, nil
}
