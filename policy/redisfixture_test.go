package policy

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

// redisBudgets returns replicas that share one Redis, each with a clock of its own.
func redisBudgets(t *testing.T, url string, control redisconn.Client) *budgets {
	t.Helper()
	c := &budgets{}
	for i := range 3 {
		// The clock of Redis decides, so it must not matter that these disagree.
		skew := time.Duration(i-1) * 10 * time.Minute
		c.replicas = append(c.replicas, startRedisBudget(t, url,
			redisOptions{patient: true, now: func() time.Time { return time.Now().Add(skew) }}).RedisBudget)
	}
	number := func(t *testing.T, id, field string) int {
		n, err := control.HGet(t.Context(), accountKey(id), field).Int()
		if err != nil && err != redis.Nil {
			t.Fatalf("read %s of %s: %v", field, id, err)
		}
		return n
	}
	c.counts = func(t *testing.T, id string) Usage {
		return Usage{RequestsThisHour: number(t, id, "hn"), RequestsToday: number(t, id, "dn"), CallsToday: number(t, id, "cn")}
	}
	c.endHour = func(t *testing.T, id string) {
		if err := control.HIncrBy(t.Context(), accountKey(id), "h", -1).Err(); err != nil {
			t.Fatal(err)
		}
		c.dropCachedRefusals()
	}
	c.endDay = func(t *testing.T, id string) {
		if err := control.HIncrBy(t.Context(), accountKey(id), "d", -1).Err(); err != nil {
			t.Fatal(err)
		}
		c.forget(id)
		c.endHour(t, id)
	}
	return c
}

// dropCachedRefusals empties the replicas' caches of refusals, as the end of a window would.
func (c *budgets) dropCachedRefusals() {
	for _, r := range c.replicas {
		r.(*RedisBudget).refusals = newRefusalCache()
	}
}

// forget makes the replicas forget an account, as the end of its day would. Otherwise they would restore its counts.
func (c *budgets) forget(accountID string) {
	for _, r := range c.replicas {
		ledger := r.(*RedisBudget).fallback
		ledger.mu.Lock()
		delete(ledger.accounts, accountID)
		ledger.mu.Unlock()
	}
}

type redisOptions struct {
	now      func() time.Time
	replicas int
	patient  bool // long timeouts, for tests without an outage on a busy machine
	relieve  func(context.Context)
}

// timeouts returns those of a step and of a round trip.
func (o redisOptions) timeouts() (step, roundTrip time.Duration) {
	if o.patient {
		return patience, patience
	}
	return redisconn.StepTimeout, defaultTimeout
}

// A testRedisBudget is a RedisBudget with its probe ticks, its log and its metrics.
type testRedisBudget struct {
	*RedisBudget
	tick     chan time.Time
	log      *logBuffer
	registry *prometheus.Registry
}

func startRedisBudget(t testing.TB, url string, o redisOptions) *testRedisBudget {
	t.Helper()
	step, _ := o.timeouts()
	client, err := redisconn.Open(url, step)
	if err != nil {
		t.Fatal(err)
	}
	s := newTestRedisBudget(t, client, o, make(chan time.Time))
	t.Cleanup(func() {
		s.Close()
		_ = client.Close()
	})
	return s
}

// newTestRedisBudget opens a budget; the caller closes the budget, then its client.
func newTestRedisBudget(t testing.TB, client redisconn.Client, o redisOptions, tick chan time.Time) *testRedisBudget {
	t.Helper()
	if o.now == nil {
		o.now = time.Now
	}
	s := &testRedisBudget{tick: tick, log: &logBuffer{}, registry: prometheus.NewRegistry()}
	_, timeout := o.timeouts()
	s.RedisBudget = newRedisBudget(RedisBudgetConfig{Client: client, Replicas: o.replicas, Now: o.now, Relieve: o.relieve,
		Log: slog.New(slog.NewTextHandler(s.log, nil)), Registry: s.registry, Timeout: timeout}, tick)
	return s
}

// probeNow makes the budget probe Redis and sync its fallback, often enough to rejoin, and waits until it has done so.
func (s *testRedisBudget) probeNow() {
	for range rejoinTicks + 1 {
		s.tick <- time.Time{} // received only after the work of the one before
	}
}

// metric returns the value of a metric of the budget. A histogram has two: NAME_sum and NAME_count.
func (s *testRedisBudget) metric(t testing.TB, name string) float64 {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		switch m := family.Metric[0]; name {
		case family.GetName():
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		case family.GetName() + "_sum":
			return m.GetHistogram().GetSampleSum()
		case family.GetName() + "_count":
			return float64(m.GetHistogram().GetSampleCount())
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(strings.Lines(b.text.String()))
}

// avoidHourEnd waits for the next hour in the last seconds of an hour, because the clock of Redis cannot be set.
func avoidHourEnd(t testing.TB) {
	t.Helper()
	if left := time.Until(hourOf(time.Now()).end()); left < 20*time.Second {
		t.Logf("the hour ends in %v: waiting for the next one", left)
		<-time.After(left)
	}
}
