package command

import (
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/status"
	"sara/policy"
	"sara/policy/redistest"
	"sara/proxy"
)

// scrape returns the metrics of the status.
func scrape(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]float64)
	for _, family := range families {
		if m := family.Metric[0]; len(m.Label) == 0 {
			shown[family.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return shown
}

// wantMetrics checks that all of the metrics are exported, and no other without a label.
func wantMetrics(t *testing.T, when string, registry *prometheus.Registry, want map[string]float64) {
	t.Helper()
	if got := scrape(t, registry); !maps.Equal(got, want) {
		t.Errorf("%s: %v, want %v", when, got, want)
	}
}

func TestStatusMetrics(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	store := seedStatus(c, map[int]int{3: 1, 7: 4, 9: 30, 11: -1})
	account, err := store.Account(t.Context(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	use := func(calls int) {
		t.Helper()
		day := time.Now().Unix() / 86400
		if err := store.SaveUsage(t.Context(), []policy.UsageCount{{AccountID: account.ID, Day: day, InDay: 10, Calls: calls}}); err != nil {
			t.Fatal(err)
		}
	}
	use(224) // of 250: not yet 90 %
	now, registry := time.Now(), prometheus.NewRegistry()
	metrics, err := status.Register(&proxy.Config{Store: store, Admission: proxy.AdmissionConfig{Plans: policy.DefaultPlans()},
		Process: proxy.Process{Log: slog.New(slog.DiscardHandler), Registry: registry, Now: func() time.Time { return now }}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	property, err := store.Property(t.Context(), "sc-domain:s05.example")
	if err != nil {
		t.Fatal(err)
	}
	state, err := store.ArchiveState(t.Context(), property.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"sara_archive_lag_days": 30, "sara_archive_properties_behind": 2, "sara_index_properties_behind": 0,
		"sara_archive_collected_timestamp_seconds": scrape(t, registry)["sara_archive_collected_timestamp_seconds"],
		"sara_connections_unhealthy":               0, "sara_accounts_near_limit": 0, "sara_status_errors_total": 0}
	if age := state.CollectedAt.Unix() - int64(want["sara_archive_collected_timestamp_seconds"]); age != 0 {
		t.Errorf("the newest run began %d s before that of a property", age)
	}
	wantMetrics(t, "at first", registry, want)

	connection, err := store.Connection(t.Context(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.SetConnectionHealth(t.Context(), connection.ID, 1, "it was revoked"); err != nil {
		t.Fatal(err)
	}
	use(225)
	now = now.Add(time.Minute - 1)
	metrics.Refresh(t.Context())
	wantMetrics(t, "before the minute is over", registry, want)
	now = now.Add(1)
	wantMetrics(t, "before they are refreshed", registry, want)
	metrics.Refresh(t.Context())
	want["sara_connections_unhealthy"], want["sara_accounts_near_limit"] = 1, 1
	wantMetrics(t, "a minute later", registry, want)

	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	wantMetrics(t, "without a database, at once", registry, want)
	now = now.Add(time.Minute)
	for range 2 {
		metrics.Refresh(t.Context())
		wantMetrics(t, "without a database", registry, map[string]float64{"sara_status_errors_total": 5})
	}
}

// A look that takes long is repeated less often. Each reading of the clock takes a quarter of a second here.
func TestStatusMetricsLookBoundTheirShareOfTheTime(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	store := seedStatus(c, nil)
	first, took, registry := time.Now(), 250*time.Millisecond, prometheus.NewRegistry()
	now := first
	metrics, err := status.Register(&proxy.Config{Store: store, Admission: proxy.AdmissionConfig{Plans: policy.DefaultPlans()},
		Process: proxy.Process{Log: slog.New(slog.DiscardHandler), Registry: registry, Now: func() time.Time {
			defer func() { now = now.Add(took) }()
			return now
		}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	unhealthy := func() float64 { return scrape(t, registry)["sara_connections_unhealthy"] }
	if got := unhealthy(); got != 0 {
		t.Fatalf("%v connections are unhealthy", got)
	}
	connection, err := store.Connection(t.Context(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.SetConnectionHealth(t.Context(), connection.ID, 1, "it was revoked"); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct {
		after time.Duration
		want  float64
	}{{time.Minute, 0}, {150*time.Second - 1, 0}, {150 * time.Second, 1}} {
		now = first.Add(at.after)
		if metrics.Refresh(t.Context()); unhealthy() != at.want {
			t.Errorf("after %v the metric is not %v", at.after, at.want)
		}
	}
}

// It runs alone: Redis counts as away if a busy machine delays its answer.
func TestStatusMetricsReadCountsFromRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts Redis")
	}
	c := clitest.New(t, sara)
	store := seedStatus(c, nil)
	account, err := store.Account(t.Context(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Single(t)
	client, log, now, registry := server.Client(), slog.New(slog.DiscardHandler), time.Now(), prometheus.NewRegistry()
	shared := policy.NewRedisBudget(policy.RedisBudgetConfig{Client: client, Replicas: 1, Now: time.Now, Log: log,
		Registry: prometheus.NewRegistry()})
	defer shared.Close()
	plan := policy.Plan{SearchConsoleCallsPerDay: 250, LiveCallsPerMinutePerProperty: 250}
	if refusal := shared.ChargeLiveCalls(account.ID, "p", 225, plan); refusal != nil {
		t.Fatalf("%+v", refusal)
	}
	metrics, err := status.Register(&proxy.Config{Store: store, Admission: proxy.AdmissionConfig{Plans: policy.DefaultPlans()},
		Process: proxy.Process{Log: log, Registry: registry, Now: func() time.Time { return now }}}, client)
	if err != nil {
		t.Fatal(err)
	}
	if got := scrape(t, registry)["sara_accounts_near_limit"]; got != 1 {
		t.Errorf("%v accounts are near their limit", got)
	}
	server.Kill()
	now = now.Add(time.Minute)
	metrics.Refresh(t.Context())
	got := scrape(t, registry)
	if _, shown := got["sara_accounts_near_limit"]; shown || got["sara_status_errors_total"] != 1 || len(got) != 6 {
		t.Errorf("without Redis: %v", got)
	}
}
