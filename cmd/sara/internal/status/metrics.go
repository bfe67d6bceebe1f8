package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/proxy"
	"sara/translate"
)

const (
	// cacheTime is how long a result is cached at least, so that scrapes of many replicas cost the database and Redis little. The
	// database counts all properties, so that a look takes longer the more there are: a result is cached for lookShare times as long
	// as the look took. So what a replica's looks cost a day does not grow with their number. A look that failed is soon repeated.
	cacheTime = time.Minute
	lookShare = 300
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

	lag, behind, collected, indexBehind, unhealthy, sealed, nearLimit prometheus.Gauge

	errors prometheus.Counter

	sealedTotal atomic.Int64 // of the last look

	mu       sync.Mutex // guards the fields below; held while looking, so that concurrent scrapes share one look
	nextLook time.Time
	shown    []prometheus.Gauge
}

var _ prometheus.Collector = (*metrics)(nil)

// Register adds a degradation to the configuration, and registers the metrics of the database's connection pool, and those of the status.
func Register(c *proxy.Config) error {
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
		sealed:      gauge("sara_connections_sealed", "Connections to Search Console whose stored credentials no secret key opens."),
		nearLimit:   gauge("sara_accounts_near_limit", "Accounts that have used 90 % or more of a budget of the hour or the day."),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_status_errors_total", Help: "Parts of the status that could not be read; their metrics are missing meanwhile.",
		}),
	}
	for _, pool := range c.Store.Collectors() {
		err = errors.Join(err, c.Registry.Register(pool))
	}
	m.checkCredentials()
	c.Degradations = append(c.Degradations, proxy.Degradation{Reason: "credentials", Active: m.withoutCredentials})
	return errors.Join(err, c.Registry.Register(m))
}

// checkCredentials looks for the first time, before anything scrapes the metrics.
func (m *metrics) checkCredentials() {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	if _, err := m.connections(ctx, m.view); err != nil {
		m.log.WarnContext(ctx, "the credentials of the connections cannot be checked", slog.Any("error", err))
	}
}

// withoutCredentials describes the connections that the last look could not open.
func (m *metrics) withoutCredentials() string {
	if n := m.sealedTotal.Load(); n > 0 {
		return fmt.Sprintf("no secret key opens the credentials of %d connections, their properties are answered from stored data", n)
	}
	return ""
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, metric := range [...]prometheus.Metric{m.lag, m.behind, m.collected, m.indexBehind, m.unhealthy, m.sealed, m.nearLimit, m.errors} {
		descriptions <- metric.Desc()
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.now(); !now.Before(m.nextLook) {
		var complete bool
		m.shown, complete = m.look(now)
		m.nextLook = now.Add(cacheTime)
		if took := m.now().Sub(now); complete {
			m.nextLook = now.Add(max(cacheTime, lookShare*took))
		}
	}
	for _, gauge := range m.shown {
		metrics <- gauge
	}
	metrics <- m.errors
}

// look sets the gauges, and returns those that could be read, and whether all could.
func (m *metrics) look(now time.Time) (learned []prometheus.Gauge, complete bool) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	v := m.view
	v.now = now
	complete = true
	for _, part := range [...]func(context.Context, view) ([]prometheus.Gauge, error){m.archive, m.indexing, m.connections, m.accounts} {
		gauges, err := part(ctx, v)
		if err != nil {
			complete = false
			m.errors.Inc()
			m.log.WarnContext(ctx, "a part of the status is missing in the metrics", slog.Any("error", err))
		}
		learned = append(learned, gauges...)
	}
	return learned, complete
}

func (m *metrics) archive(ctx context.Context, v view) ([]prometheus.Gauge, error) {
	_, counts, err := v.archive(ctx, 0)
	if err != nil {
		return nil, err
	}
	worst := 0
	if counts.Oldest != nil {
		worst = max(0, int(v.calendar.Anchor(v.now)-*counts.Oldest))
	}
	m.lag.Set(float64(worst))
	m.behind.Set(float64(counts.Late))
	if counts.Newest == nil {
		return []prometheus.Gauge{m.lag, m.behind}, nil
	}
	m.collected.Set(float64(counts.Newest.Unix()))
	return []prometheus.Gauge{m.lag, m.behind, m.collected}, nil
}

func (m *metrics) indexing(ctx context.Context, v view) ([]prometheus.Gauge, error) {
	status, err := v.indexing(ctx, 0)
	if err != nil {
		return nil, err
	}
	m.indexBehind.Set(float64(status.Counts.Late))
	return []prometheus.Gauge{m.indexBehind}, nil
}

func (m *metrics) connections(ctx context.Context, v view) ([]prometheus.Gauge, error) {
	outages, err := v.store.Outages(ctx, 0)
	if err != nil {
		return nil, err
	}
	m.unhealthy.Set(float64(outages.Total))
	sealing, err := v.store.Sealing(ctx, 0)
	if err != nil || !sealing.Checked() {
		return []prometheus.Gauge{m.unhealthy}, err
	}
	m.sealed.Set(float64(sealing.Unopened.Total))
	m.sealedTotal.Store(int64(sealing.Unopened.Total))
	return []prometheus.Gauge{m.unhealthy, m.sealed}, nil
}

func (m *metrics) accounts(ctx context.Context, v view) ([]prometheus.Gauge, error) {
	var status Budgets
	if err := v.accountBudgets(ctx, &status); err != nil {
		return nil, err
	}
	m.nearLimit.Set(float64(status.full))
	return []prometheus.Gauge{m.nearLimit}, nil
}
