package policy

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sara/policy/redistest"
)

// counters is what the suite of behaviour runs over: replicas of one counter, and a view of its clock and its counts.
type counters struct {
	replicas []Budget
	counts   func(t *testing.T, accountID string) Usage // looked up behind the back of the replicas
	hourEnds func(t *testing.T, accountID string)
	dayEnds  func(t *testing.T, accountID string)
}

func (c *counters) any() Budget { return c.replicas[0] }

// ample is a plan that refuses nothing; a test lowers what it is about.
func ample() Plan {
	return Plan{APIAccess: true, RequestsPerMinutePerKey: 100_000, RequestsPerHour: 100_000, RequestsPerDay: 100_000,
		SearchConsoleCallsPerDay: 100_000, LiveCallsPerMinutePerProperty: 100_000}
}

// manualClock is a clock that a test moves.
type manualClock struct{ nanoseconds atomic.Int64 }

func clockAt(t time.Time) *manualClock {
	c := &manualClock{}
	c.set(t)
	return c
}

func (c *manualClock) set(t time.Time)          { c.nanoseconds.Store(t.UnixNano()) }
func (c *manualClock) advance(by time.Duration) { c.nanoseconds.Add(int64(by)) }
func (c *manualClock) now() time.Time           { return time.Unix(0, c.nanoseconds.Load()) }

func localCounters(*testing.T) *counters {
	clock := clockAt(time.Date(2026, 3, 5, 12, 30, 0, 0, time.UTC))
	local := NewMemoryBudget(clock.now)
	return &counters{
		replicas: []Budget{local},
		counts:   func(_ *testing.T, id string) Usage { return local.Usage(context.Background(), id) },
		hourEnds: func(*testing.T, string) { clock.advance(hourOf(clock.now()).end().Sub(clock.now())) },
		dayEnds:  func(*testing.T, string) { clock.advance(hourOf(clock.now()).endOfDay().Sub(clock.now())) },
	}
}

// sharedOver returns replicas over one Redis, which share its counts and have a clock each.
func sharedOver(t *testing.T, url string, control redis.UniversalClient) *counters {
	t.Helper()
	c := &counters{}
	for i := range 3 {
		// Redis' clock decides, so it must not matter that these disagree.
		skew := time.Duration(i-1) * 10 * time.Minute
		c.replicas = append(c.replicas, startShared(t, url, sharedOptions{patient: true, now: func() time.Time { return time.Now().Add(skew) }}).RedisBudget)
	}
	number := func(t *testing.T, id, field string) int {
		n, err := control.HGet(t.Context(), accountKey(id), field).Int()
		if err != nil && err != redis.Nil {
			t.Fatalf("look up %s of %s: %v", field, id, err)
		}
		return n
	}
	c.counts = func(t *testing.T, id string) Usage {
		return Usage{RequestsThisHour: number(t, id, "hn"), RequestsToday: number(t, id, "dn"), CallsToday: number(t, id, "cn")}
	}
	c.hourEnds = func(t *testing.T, id string) {
		if err := control.HIncrBy(t.Context(), accountKey(id), "h", -1).Err(); err != nil {
			t.Fatal(err)
		}
		c.forget()
	}
	c.dayEnds = func(t *testing.T, id string) {
		if err := control.HIncrBy(t.Context(), accountKey(id), "d", -1).Err(); err != nil {
			t.Fatal(err)
		}
		c.hourEnds(t, id)
	}
	return c
}

// forget ends the refusals that the replicas remember, as the end of a window would.
func (c *counters) forget() {
	for _, r := range c.replicas {
		r.(*RedisBudget).refusals.(*otter.Cache[refusalKey, cachedRefusal]).InvalidateAll()
	}
}

type sharedOptions struct {
	now      func() time.Time
	replicas int
	patient  bool // waits for Redis as long as a busy machine may take, where no outage is meant
}

// limits returns the longest that a step and a round trip may take.
func (o sharedOptions) limits() (step, trip time.Duration) {
	if o.patient {
		return 5 * time.Second, 5 * time.Second
	}
	return redisStepTimeout, roundTripTimeout
}

// testShared is a Shared with its surroundings.
type testShared struct {
	*RedisBudget
	tick     chan time.Time
	log      *logBuffer
	registry *prometheus.Registry
}

func startShared(t testing.TB, url string, o sharedOptions) *testShared {
	t.Helper()
	step, _ := o.limits()
	client, err := openRedis(url, step)
	if err != nil {
		t.Fatal(err)
	}
	s := startSharedOn(t, client, o, make(chan time.Time))
	t.Cleanup(func() {
		s.Close()
		_ = client.Close()
	})
	return s
}

// startSharedOn leaves it to the caller to close the counter and then the client.
func startSharedOn(t testing.TB, client redis.UniversalClient, o sharedOptions, tick chan time.Time) *testShared {
	t.Helper()
	if o.now == nil {
		o.now = time.Now
	}
	s := &testShared{tick: tick, log: &logBuffer{}, registry: prometheus.NewRegistry()}
	var err error
	_, trip := o.limits()
	s.RedisBudget, err = newRedisBudget(RedisBudgetConfig{Client: client, Replicas: o.replicas, Now: o.now,
		Log: slog.New(slog.NewTextHandler(s.log, nil)), Registry: s.registry}, trip, tick)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// look makes the counter look whether Redis is back, and waits until it has done so.
func (s *testShared) look() {
	s.tick <- time.Time{}
	s.tick <- time.Time{} // taken only when the first is done; whatever came in between is given now
}

// metric returns the value of a metric of the counter. A histogram has two, NAME_sum and NAME_count.
func (s *testShared) metric(t testing.TB, name string) float64 {
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

// awayFromTheHour waits in the last seconds of an hour until it is over, since the clock of Redis cannot be set.
func awayFromTheHour(t testing.TB) {
	t.Helper()
	if left := time.Until(hourOf(time.Now()).end()); left < 20*time.Second {
		t.Logf("the hour ends in %v: wait for the next", left)
		<-time.After(left)
	}
}

func TestCounters(t *testing.T) {
	t.Run("local", func(t *testing.T) { testCounters(t, localCounters) })
	t.Run("single", func(t *testing.T) {
		server := redistest.Single(t)
		testCounters(t, func(t *testing.T) *counters { return sharedOver(t, server.URL(), server.Client()) })
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := redistest.Cluster(t)
		control, err := OpenRedis(cluster.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = control.Close() }()
		testCounters(t, func(t *testing.T) *counters { return sharedOver(t, cluster.URL(), control) })
	})
	t.Run("sentinel", func(t *testing.T) {
		group := redistest.Sentinel(t)
		testCounters(t, func(t *testing.T) *counters { return sharedOver(t, group.URL(), group.Nodes[0].Client()) })
	})
}

func testCounters(t *testing.T, open func(*testing.T) *counters) {
	awayFromTheHour(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *counters, string)
	}{
		{"a ceiling that refuses leaves the others untouched", testAllOrNothing},
		{"of two ceilings the one that lasts longer is named", testLongestNamed},
		{"of 200 requests at once exactly the limit is admitted", testExact},
		{"of 200 live charges at once exactly the limit is admitted", testExactLive},
		{"two keys share the hour and the day but not the minute", testTwoKeys},
		{"usage tells and charges nothing", testUsage},
		{"the end of an hour resets the hour and nothing else", testHourEnds},
		{"midnight resets the day and the hour and nothing else", testDayEnds},
		{"live calls are charged to both or to neither", testLive},
		{"accounts share the minute of a property", testSharedProperty},
		{"calls that were not made are given back to the account", testReturn},
		{"of calls charged and given back at once none is lost", testReturnAtOnce},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, open(t), strings.ReplaceAll(t.Name(), "/", "-"))
		})
	}
}

// admitN asks n times and returns how often it was admitted, and the last refusal.
func admitN(b Budget, n int, account, key string, p Plan) (admitted int, last *Refusal) {
	for range n {
		if _, refusal := b.Admit(context.Background(), account, key, p); refusal == nil {
			admitted++
		} else {
			last = refusal
		}
	}
	return admitted, last
}

func wantRefusal(t *testing.T, got *Refusal, ceiling Ceiling, limit int, most time.Duration) {
	t.Helper()
	if got == nil || got.Ceiling != ceiling || got.Limit != limit || got.RetryAfter <= 0 || got.RetryAfter > most {
		t.Errorf("refusal %+v, want ceiling %d of %d for at most %v", got, ceiling, limit, most)
	}
}

func wantCounts(t *testing.T, c *counters, account string, hour, day, calls int) {
	t.Helper()
	got := c.counts(t, account)
	if got.RequestsThisHour != hour || got.RequestsToday != day || got.CallsToday != calls {
		t.Errorf("counted %d this hour, %d today and %d calls, want %d, %d and %d",
			got.RequestsThisHour, got.RequestsToday, got.CallsToday, hour, day, calls)
	}
}

// ceilings are the ceilings on requests, each with a plan that lets limit requests through.
func ceilings(limit int) []struct {
	ceiling Ceiling
	plan    Plan
	most    time.Duration
} {
	minute, hour, day := ample(), ample(), ample()
	minute.RequestsPerMinutePerKey, hour.RequestsPerHour, day.RequestsPerDay = limit, limit, limit
	return []struct {
		ceiling Ceiling
		plan    Plan
		most    time.Duration
	}{{KeyMinute, minute, time.Minute / time.Duration(limit)}, {AccountHour, hour, time.Hour}, {AccountDay, day, 24 * time.Hour}}
}

func testAllOrNothing(t *testing.T, c *counters, id string) {
	for i, ceiling := range ceilings(3) {
		account := id + strconv.Itoa(i)
		admitted, refusal := admitN(c.any(), 8, account, account+"key", ceiling.plan)
		if admitted != 3 {
			t.Errorf("ceiling %d: admitted %d of 3", ceiling.ceiling, admitted)
		}
		wantRefusal(t, refusal, ceiling.ceiling, 3, ceiling.most)
		wantCounts(t, c, account, 3, 3, 0)
		// A refusal of the hour or the day is not remembered for a limit that was raised. The minute's bucket is empty still.
		if more, _ := admitN(c.any(), 1, account, account+"key", ceilings(10)[i].plan); ceiling.ceiling != KeyMinute && more != 1 {
			t.Errorf("ceiling %d: it still refuses after it was raised", ceiling.ceiling)
		}
	}
}

func testLongestNamed(t *testing.T, c *counters, id string) {
	plan := ample()
	plan.RequestsPerMinutePerKey, plan.RequestsPerHour = 2, 2
	_, refusal := admitN(c.any(), 3, id, id+"key", plan)
	wantRefusal(t, refusal, AccountHour, 2, time.Hour)
	plan.RequestsPerDay = 2
	other := id + "day"
	_, refusal = admitN(c.any(), 3, other, other+"key", plan)
	wantRefusal(t, refusal, AccountDay, 2, 24*time.Hour)
}

// atOnce calls do n times at once, spread over the replicas, and returns how often it was true.
func (c *counters) atOnce(n int, do func(i int, b Budget) bool) int {
	var admitted atomic.Int64
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			if do(i, c.replicas[i%len(c.replicas)]) {
				admitted.Add(1)
			}
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	return int(admitted.Load())
}

func testExact(t *testing.T, c *counters, id string) {
	for i, ceiling := range ceilings(20) {
		account := id + strconv.Itoa(i)
		admitted := c.atOnce(200, func(n int, b Budget) bool {
			_, refusal := b.Admit(t.Context(), account, account+"key", ceiling.plan)
			return refusal == nil
		})
		if admitted != 20 {
			t.Errorf("ceiling %d: admitted %d of 20", ceiling.ceiling, admitted)
		}
		wantCounts(t, c, account, 20, 20, 0)
	}
}

func testExactLive(t *testing.T, c *counters, id string) {
	calls, property := ample(), ample()
	calls.SearchConsoleCallsPerDay, property.LiveCallsPerMinutePerProperty = 41, 41
	for i, plan := range []Plan{calls, property} {
		account := id + strconv.Itoa(i)
		admitted := c.atOnce(200, func(_ int, b Budget) bool {
			return b.ChargeLiveCalls(t.Context(), account, account+"property", 2, plan) == nil
		})
		if admitted != 20 {
			t.Errorf("plan %d: %d charges of two calls fit into 41", i, admitted)
		}
		wantCounts(t, c, account, 0, 0, 40)
	}
}

func testTwoKeys(t *testing.T, c *counters, id string) {
	plan := ample()
	plan.RequestsPerMinutePerKey, plan.RequestsPerHour = 3, 5
	if admitted, refusal := admitN(c.any(), 4, id, id+"key1", plan); admitted != 3 || refusal.Ceiling != KeyMinute {
		t.Errorf("the first key: admitted %d, then %+v", admitted, refusal)
	}
	if admitted, refusal := admitN(c.any(), 4, id, id+"key2", plan); admitted != 2 || refusal.Ceiling != AccountHour {
		t.Errorf("the second key: admitted %d, then %+v", admitted, refusal)
	}
	wantCounts(t, c, id, 5, 5, 0)
}

func testUsage(t *testing.T, c *counters, id string) {
	ctx := t.Context()
	for i := 1; i <= 3; i++ {
		usage, _ := c.any().Admit(ctx, id, id+"key", ample())
		if usage.RequestsThisHour != i || usage.RequestsToday != i {
			t.Errorf("request %d sees %+v", i, usage)
		}
	}
	if refusal := c.any().ChargeLiveCalls(ctx, id, id+"property", 2, ample()); refusal != nil {
		t.Errorf("refused: %+v", refusal)
	}
	for _, replica := range c.replicas {
		for range 2 {
			usage := replica.Usage(ctx, id)
			if usage.RequestsThisHour != 3 || usage.RequestsToday != 3 || usage.CallsToday != 2 || usage.At.IsZero() {
				t.Errorf("usage %+v", usage)
			}
		}
	}
	plan := ample()
	plan.RequestsPerDay = 3
	usage, refusal := c.any().Admit(ctx, id, id+"key", plan)
	if refusal == nil || usage.RequestsToday != 3 || usage.CallsToday != 2 {
		t.Errorf("a refused request sees %+v", usage)
	}
	wantCounts(t, c, id, 3, 3, 2)
}

func testHourEnds(t *testing.T, c *counters, id string) {
	plan := ample()
	plan.RequestsPerHour = 3
	ctx := t.Context()
	admitN(c.any(), 4, id, id+"key", plan)
	_ = c.any().ChargeLiveCalls(ctx, id, id+"property", 1, plan)
	c.hourEnds(t, id)
	usage := c.any().Usage(ctx, id)
	if usage.RequestsThisHour != 0 || usage.RequestsToday != 3 || usage.CallsToday != 1 {
		t.Errorf("after the hour: %+v", usage)
	}
	if admitted, _ := admitN(c.any(), 4, id, id+"key", plan); admitted != 3 {
		t.Errorf("admitted %d of 3 in the next hour", admitted)
	}
	wantCounts(t, c, id, 3, 6, 1)
}

func testDayEnds(t *testing.T, c *counters, id string) {
	plan := ample()
	plan.RequestsPerDay, plan.SearchConsoleCallsPerDay = 3, 2
	ctx := t.Context()
	admitN(c.any(), 4, id, id+"key", plan)
	_ = c.any().ChargeLiveCalls(ctx, id, id+"property", 2, plan)
	wantRefusal(t, c.any().ChargeLiveCalls(ctx, id, id+"property", 1, plan), AccountCalls, 2, 24*time.Hour)
	c.dayEnds(t, id)
	if usage := c.any().Usage(ctx, id); usage.RequestsThisHour != 0 || usage.RequestsToday != 0 || usage.CallsToday != 0 {
		t.Errorf("after midnight: %+v", usage)
	}
	if admitted, _ := admitN(c.any(), 4, id, id+"key", plan); admitted != 3 {
		t.Errorf("admitted %d of 3 on the next day", admitted)
	}
	if refusal := c.any().ChargeLiveCalls(ctx, id, id+"property", 2, plan); refusal != nil {
		t.Errorf("refused on the next day: %+v", refusal)
	}
	wantCounts(t, c, id, 3, 3, 2)
}

func testLive(t *testing.T, c *counters, id string) {
	ctx := t.Context()
	plan := ample()
	plan.SearchConsoleCallsPerDay, plan.LiveCallsPerMinutePerProperty = 5, 3
	charge := func(property string, calls int) *Refusal {
		return c.any().ChargeLiveCalls(ctx, id, id+property, calls, plan)
	}
	if refusal := charge("a", 2); refusal != nil {
		t.Errorf("two of three: %+v", refusal)
	}
	wantRefusal(t, charge("a", 2), PropertyMinute, 3, 20*time.Second)
	wantCounts(t, c, id, 0, 0, 2) // the property refused: the account pays nothing
	if refusal := charge("a", 1); refusal != nil {
		t.Errorf("the third of three: %+v", refusal)
	}
	wantRefusal(t, charge("b", 3), AccountCalls, 5, 24*time.Hour) // the account refused: the property pays nothing
	plan.SearchConsoleCallsPerDay = 100
	if refusal := charge("b", 3); refusal != nil {
		t.Errorf("three of three: %+v", refusal)
	}
	wantCounts(t, c, id, 0, 0, 6)
	plan.SearchConsoleCallsPerDay = 0
	if refusal := charge("c", 1); refusal == nil || refusal.Ceiling != AccountCalls {
		t.Errorf("a plan without live calls: %+v", refusal)
	}
}

func testSharedProperty(t *testing.T, c *counters, id string) {
	plan := ample()
	plan.LiveCallsPerMinutePerProperty = 2
	for i := range 3 {
		refusal := c.any().ChargeLiveCalls(t.Context(), fmt.Sprint(id, i), id, 1, plan)
		if (refusal != nil) != (i == 2) {
			t.Errorf("account %d: %+v", i, refusal)
		}
	}
	wantCounts(t, c, id+"2", 0, 0, 0)
}

func testReturn(t *testing.T, c *counters, id string) {
	ctx, plan := t.Context(), ample()
	plan.SearchConsoleCallsPerDay, plan.LiveCallsPerMinutePerProperty = 4, 5
	charge := func(property string, calls int) *Refusal {
		return c.any().ChargeLiveCalls(ctx, id, id+property, calls, plan)
	}
	today := c.any().Usage(ctx, id).At
	_, _ = c.any().Admit(ctx, id, id+"key", plan)
	if refusal := charge("a", 4); refusal != nil {
		t.Errorf("four of four: %+v", refusal)
	}
	wantRefusal(t, charge("b", 1), AccountCalls, 4, 24*time.Hour)
	c.replicas[len(c.replicas)-1].RefundLiveCalls(ctx, id, 2, today)
	wantCounts(t, c, id, 1, 1, 2)
	wantRefusal(t, charge("a", 2), PropertyMinute, 5, time.Minute) // which gets nothing back
	if refusal := charge("b", 2); refusal != nil {
		t.Errorf("what was given back: %+v", refusal)
	}
	c.any().RefundLiveCalls(ctx, id, 3, today.Add(-24*time.Hour)) // of a day that is over
	wantCounts(t, c, id, 1, 1, 4)
	c.any().RefundLiveCalls(ctx, id, 100, today)
	wantCounts(t, c, id, 1, 1, 0)
	other := id + "other" // nothing was charged
	c.any().RefundLiveCalls(ctx, other, 1, today)
	wantCounts(t, c, other, 0, 0, 0)
	if refusal := c.any().ChargeLiveCalls(ctx, other, other, 5, plan); refusal == nil {
		t.Error("a return of nothing gave out a call")
	}
}

func testReturnAtOnce(t *testing.T, c *counters, id string) {
	today := c.any().Usage(t.Context(), id).At
	c.atOnce(50, func(_ int, b Budget) bool {
		if b.ChargeLiveCalls(t.Context(), id, id+"property", 2, ample()) == nil {
			b.RefundLiveCalls(t.Context(), id, 1, today)
		}
		return true
	})
	wantCounts(t, c, id, 0, 0, 50)
}
