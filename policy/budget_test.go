package policy

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

// budgets is the subject of the behaviour suite: the replicas of one budget, with access to its counts and its windows.
type budgets struct {
	replicas []Budget
	counts   func(t *testing.T, accountID string) Usage // read without the replicas
	endHour  func(t *testing.T, accountID string)
	endDay   func(t *testing.T, accountID string)
}

func (c *budgets) first() Budget { return c.replicas[0] }

// generousPlan refuses nothing; each test lowers the limits that it is about.
func generousPlan() Plan {
	return Plan{APIAccess: true, RequestsPerMinutePerKey: 100_000, RequestsPerHour: 100_000, RequestsPerDay: 100_000,
		SearchConsoleCallsPerDay: 100_000, LiveCallsPerMinutePerProperty: 100_000}
}

// A manualClock moves only when a test moves it.
type manualClock struct{ nanoseconds atomic.Int64 }

func clockAt(t time.Time) *manualClock {
	c := &manualClock{}
	c.set(t)
	return c
}

func (c *manualClock) set(t time.Time)          { c.nanoseconds.Store(t.UnixNano()) }
func (c *manualClock) advance(by time.Duration) { c.nanoseconds.Add(int64(by)) }
func (c *manualClock) now() time.Time           { return time.Unix(0, c.nanoseconds.Load()).UTC() }

func memoryBudgets(*testing.T) *budgets {
	clock := clockAt(time.Date(2026, 3, 5, 12, 30, 0, 0, time.UTC))
	local := NewMemoryBudget(clock.now)
	return &budgets{
		replicas: []Budget{local},
		counts:   func(_ *testing.T, id string) Usage { return local.Usage(id) },
		endHour:  func(*testing.T, string) { clock.advance(hourOf(clock.now()).end().Sub(clock.now())) },
		endDay:   func(*testing.T, string) { clock.advance(hourOf(clock.now()).endOfDay().Sub(clock.now())) },
	}
}

func TestMemoryBudget(t *testing.T) { testBudgets(t, memoryBudgets) }

// TestRedisTopologies runs everything that depends on how Redis is deployed on a single server, on a sentinel and on a
// cluster. The cluster starts while the others are tested.
func TestRedisTopologies(t *testing.T) {
	t.Parallel()
	awaitCluster := func() *redistest.Group { return nil }
	if !testing.Short() {
		awaitCluster = redistest.StartCluster(t)
	}
	single, sentinel := redistest.Single(t), redistest.Sentinel(t)
	t.Run("single", func(t *testing.T) { testTopology(t, single.URL(), single.Client()) })
	t.Run("sentinel", func(t *testing.T) { testTopology(t, sentinel.URL(), sentinel.Nodes[0].Client()) })
	cluster := awaitCluster()
	t.Run("cluster", func(t *testing.T) {
		if cluster == nil {
			t.Skip("a cluster takes two seconds to start")
		}
		control, err := redisconn.Open(cluster.URL(), patience)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = control.Close() }()
		testTopology(t, cluster.URL(), control)
	})
}

func testTopology(t *testing.T, url string, control redisconn.Client) {
	t.Run("budgets", func(t *testing.T) {
		avoidHourEnd(t)
		testBudgets(t, func(t *testing.T) *budgets { return redisBudgets(t, url, control) })
	})
	t.Run("leases", func(t *testing.T) {
		avoidHourEnd(t)
		t.Run("a request waits for leases of others", func(t *testing.T) { testWaitsForLeases(t, url, control) })
		t.Run("exactly the limit is admitted", func(t *testing.T) { testLeasesAreExact(t, url, control) })
	})
	t.Run("invalidations", func(t *testing.T) { testInvalidations(t, url) })
	t.Run("usage", func(t *testing.T) { testUsageReads(t, url, control) })
	t.Run("inspections", func(t *testing.T) { testSharedInspections(t, url) })
}

func testBudgets(t *testing.T, open func(*testing.T) *budgets) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *budgets, string)
	}{
		{"a refusal charges nothing", testChargesAllOrNothing},
		{"the ceiling that lasts longest is reported", testReportsLongestCeiling},
		{"200 concurrent requests: exactly the limit is admitted", testExactUnderConcurrency},
		{"200 concurrent live charges: exactly the limit is admitted", testExactLiveCalls},
		{"two keys share the hour and the day but not the minute", testKeysShareHourAndDay},
		{"what no allowance covers counts in the minute only", testMinuteOnly},
		{"200 concurrent requests that no allowance covers: exactly the minute passes", testExactMinuteOnly},
		{"reading the usage charges nothing", testUsage},
		{"the end of an hour resets only the hour", testHourResets},
		{"midnight resets the day and the hour", testDayResets},
		{"live calls are charged to account and property or to neither", testLiveCalls},
		{"accounts share the minute of a property", testAccountsShareProperty},
		{"refunds go to the account, for the same day only", testRefund},
		{"concurrent charges and refunds add up", testConcurrentRefunds},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, open(t), strings.ReplaceAll(t.Name(), "/", "-"))
		})
	}
}

// admitN makes n requests and returns how many were admitted, and the last refusal.
func admitN(b Budget, n int, account, key string, p Plan) (admitted int, last *Refusal) {
	for range n {
		if _, refusal := b.Admit(account, key, p); refusal == nil {
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

func wantCounts(t *testing.T, c *budgets, account string, hour, day, calls int) {
	t.Helper()
	got := c.counts(t, account)
	if got.RequestsThisHour != hour || got.RequestsToday != day || got.CallsToday != calls {
		t.Errorf("counted %d this hour, %d today and %d calls, want %d, %d and %d",
			got.RequestsThisHour, got.RequestsToday, got.CallsToday, hour, day, calls)
	}
}

// ceilings returns the ceilings on requests, each with a plan that admits limit requests.
func ceilings(limit int) []struct {
	ceiling Ceiling
	plan    Plan
	most    time.Duration
} {
	minute, hour, day := generousPlan(), generousPlan(), generousPlan()
	minute.RequestsPerMinutePerKey, hour.RequestsPerHour, day.RequestsPerDay = limit, limit, limit
	return []struct {
		ceiling Ceiling
		plan    Plan
		most    time.Duration
	}{{KeyMinute, minute, time.Minute / time.Duration(limit)}, {AccountHour, hour, time.Hour}, {AccountDay, day, 24 * time.Hour}}
}

func testChargesAllOrNothing(t *testing.T, c *budgets, id string) {
	for i, ceiling := range ceilings(3) {
		account := id + strconv.Itoa(i)
		admitted, refusal := admitN(c.first(), 8, account, account+"key", ceiling.plan)
		if admitted != 3 {
			t.Errorf("ceiling %d: admitted %d of 3", ceiling.ceiling, admitted)
		}
		wantRefusal(t, refusal, ceiling.ceiling, 3, ceiling.most)
		if refusal.ByShare {
			t.Errorf("ceiling %d: the budget is not shared, but the refusal names a share: %+v", ceiling.ceiling, refusal)
		}
		wantCounts(t, c, account, 3, 3, 0)
		// A cached refusal of the hour or the day ends when the limit is raised. The minute's bucket is still empty.
		if more, _ := admitN(c.first(), 1, account, account+"key", ceilings(10)[i].plan); ceiling.ceiling != KeyMinute && more != 1 {
			t.Errorf("ceiling %d: still refuses after the limit was raised", ceiling.ceiling)
		}
	}
}

func testReportsLongestCeiling(t *testing.T, c *budgets, id string) {
	plan := generousPlan()
	plan.RequestsPerMinutePerKey, plan.RequestsPerHour = 2, 2
	_, refusal := admitN(c.first(), 3, id, id+"key", plan)
	wantRefusal(t, refusal, AccountHour, 2, time.Hour)
	plan.RequestsPerDay = 2
	other := id + "day"
	_, refusal = admitN(c.first(), 3, other, other+"key", plan)
	wantRefusal(t, refusal, AccountDay, 2, 24*time.Hour)
}

// concurrently calls do n times at once, spread over the replicas, and returns how often it was true.
func (c *budgets) concurrently(n int, do func(i int, b Budget) bool) int {
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

func testExactUnderConcurrency(t *testing.T, c *budgets, id string) {
	for i, ceiling := range ceilings(20) {
		account := id + strconv.Itoa(i)
		admitted := c.concurrently(200, func(n int, b Budget) bool {
			_, refusal := b.Admit(account, account+"key", ceiling.plan)
			return refusal == nil
		})
		if admitted != 20 {
			t.Errorf("ceiling %d: admitted %d of 20", ceiling.ceiling, admitted)
		}
		wantCounts(t, c, account, 20, 20, 0)
	}
}

func testExactLiveCalls(t *testing.T, c *budgets, id string) {
	calls, property := generousPlan(), generousPlan()
	calls.SearchConsoleCallsPerDay, property.LiveCallsPerMinutePerProperty = 41, 41
	for i, plan := range []Plan{calls, property} {
		account := id + strconv.Itoa(i)
		admitted := c.concurrently(200, func(_ int, b Budget) bool {
			return b.ChargeLiveCalls(account, account+"property", 2, plan) == nil
		})
		if admitted != 20 {
			t.Errorf("plan %d: %d charges of two calls, want 20 of a limit of 41", i, admitted)
		}
		wantCounts(t, c, account, 0, 0, 40)
	}
}

func testKeysShareHourAndDay(t *testing.T, c *budgets, id string) {
	plan := generousPlan()
	plan.RequestsPerMinutePerKey, plan.RequestsPerHour = 3, 5
	if admitted, refusal := admitN(c.first(), 4, id, id+"key1", plan); admitted != 3 || refusal.Ceiling != KeyMinute {
		t.Errorf("the first key: admitted %d, then %+v", admitted, refusal)
	}
	if admitted, refusal := admitN(c.first(), 4, id, id+"key2", plan); admitted != 2 || refusal.Ceiling != AccountHour {
		t.Errorf("the second key: admitted %d, then %+v", admitted, refusal)
	}
	wantCounts(t, c, id, 5, 5, 0)
}

func testMinuteOnly(t *testing.T, c *budgets, id string) {
	plan := generousPlan()
	plan.RequestsPerMinutePerKey = 5
	admitN(c.first(), 2, id, id+"key", plan)
	for i := range 3 {
		usage, refusal := c.first().ChargeMinute(id, id+"key", plan)
		if refusal != nil || usage.RequestsThisHour != 2 || usage.RequestsToday != 2 {
			t.Errorf("charge %d: %+v, usage %+v", i, refusal, usage)
		}
	}
	usage, refusal := c.first().ChargeMinute(id, id+"key", plan)
	wantRefusal(t, refusal, KeyMinute, 5, time.Minute)
	if usage.RequestsToday != 2 {
		t.Errorf("a refused charge: usage %+v", usage)
	}
	_, refusal = admitN(c.first(), 1, id, id+"key", plan)
	wantRefusal(t, refusal, KeyMinute, 5, time.Minute)
	if admitted, refusal := admitN(c.first(), 1, id, id+"another key", plan); admitted != 1 {
		t.Errorf("another key is refused: %+v", refusal)
	}
	plan.RequestsPerMinutePerKey, plan.RequestsPerDay = 100, 3
	if _, refusal := c.first().ChargeMinute(id, id+"third key", plan); refusal != nil {
		t.Errorf("on a day that is used up: %+v", refusal)
	}
	wantCounts(t, c, id, 3, 3, 0)
}

func testExactMinuteOnly(t *testing.T, c *budgets, id string) {
	for limit, plan := range map[int]Plan{uncoveredPerMinute: {}, 20: {RequestsPerMinutePerKey: 20}} {
		account := id + strconv.Itoa(limit)
		passed := c.concurrently(200, func(_ int, b Budget) bool {
			_, refusal := b.ChargeMinute(account, account+"key", plan)
			return refusal == nil
		})
		// A token of 60 a minute comes back each second, and the servers cannot stop their clocks.
		if passed < limit || passed > limit+limit/20 {
			t.Errorf("%d of 200 passed, want %d", passed, limit)
		}
		wantCounts(t, c, account, 0, 0, 0)
	}
}

func testUsage(t *testing.T, c *budgets, id string) {
	for i := 1; i <= 3; i++ {
		usage, _ := c.first().Admit(id, id+"key", generousPlan())
		if usage.RequestsThisHour != i || usage.RequestsToday != i {
			t.Errorf("request %d: usage %+v", i, usage)
		}
	}
	if refusal := c.first().ChargeLiveCalls(id, id+"property", 2, generousPlan()); refusal != nil {
		t.Errorf("refused: %+v", refusal)
	}
	for _, replica := range c.replicas {
		for range 2 {
			usage := replica.Usage(id)
			if usage.RequestsThisHour != 3 || usage.RequestsToday != 3 || usage.CallsToday != 2 || usage.At.IsZero() {
				t.Errorf("usage %+v", usage)
			}
		}
	}
	plan := generousPlan()
	plan.RequestsPerDay = 3
	usage, refusal := c.first().Admit(id, id+"key", plan)
	if refusal == nil || usage.RequestsToday != 3 || usage.CallsToday != 2 {
		t.Errorf("refused request: usage %+v", usage)
	}
	wantCounts(t, c, id, 3, 3, 2)
}

func testHourResets(t *testing.T, c *budgets, id string) {
	plan := generousPlan()
	plan.RequestsPerHour = 3
	admitN(c.first(), 4, id, id+"key", plan)
	_ = c.first().ChargeLiveCalls(id, id+"property", 1, plan)
	c.endHour(t, id)
	usage := c.first().Usage(id)
	if usage.RequestsThisHour != 0 || usage.RequestsToday != 3 || usage.CallsToday != 1 {
		t.Errorf("after the hour: %+v", usage)
	}
	if admitted, _ := admitN(c.first(), 4, id, id+"key", plan); admitted != 3 {
		t.Errorf("admitted %d of 3 in the next hour", admitted)
	}
	wantCounts(t, c, id, 3, 6, 1)
}

func testDayResets(t *testing.T, c *budgets, id string) {
	plan := generousPlan()
	plan.RequestsPerDay, plan.SearchConsoleCallsPerDay = 3, 2
	admitN(c.first(), 4, id, id+"key", plan)
	_ = c.first().ChargeLiveCalls(id, id+"property", 2, plan)
	wantRefusal(t, c.first().ChargeLiveCalls(id, id+"property", 1, plan), AccountCalls, 2, 24*time.Hour)
	c.endDay(t, id)
	if usage := c.first().Usage(id); usage.RequestsThisHour != 0 || usage.RequestsToday != 0 || usage.CallsToday != 0 {
		t.Errorf("after midnight: %+v", usage)
	}
	if admitted, _ := admitN(c.first(), 4, id, id+"key", plan); admitted != 3 {
		t.Errorf("admitted %d of 3 on the next day", admitted)
	}
	if refusal := c.first().ChargeLiveCalls(id, id+"property", 2, plan); refusal != nil {
		t.Errorf("refused on the next day: %+v", refusal)
	}
	wantCounts(t, c, id, 3, 3, 2)
}

func testLiveCalls(t *testing.T, c *budgets, id string) {
	plan := generousPlan()
	plan.SearchConsoleCallsPerDay, plan.LiveCallsPerMinutePerProperty = 5, 3
	charge := func(property string, calls int) *Refusal {
		return c.first().ChargeLiveCalls(id, id+property, calls, plan)
	}
	if refusal := charge("a", 2); refusal != nil {
		t.Errorf("two of three: %+v", refusal)
	}
	wantRefusal(t, charge("a", 2), PropertyMinute, 3, 20*time.Second)
	wantCounts(t, c, id, 0, 0, 2) // the property refused: the account is not charged
	if refusal := charge("a", 1); refusal != nil {
		t.Errorf("the third of three: %+v", refusal)
	}
	wantRefusal(t, charge("b", 3), AccountCalls, 5, 24*time.Hour) // the account refused: the property is not charged
	plan.SearchConsoleCallsPerDay = 100
	if refusal := charge("b", 3); refusal != nil {
		t.Errorf("three of three: %+v", refusal)
	}
	wantCounts(t, c, id, 0, 0, 6)
	plan.SearchConsoleCallsPerDay = 0
	if refusal := charge("c", 1); refusal == nil || refusal.Ceiling != AccountCalls {
		t.Errorf("a plan without live calls: %+v", refusal)
	}
	plan.SearchConsoleCallsPerDay, plan.LiveCallsPerMinutePerProperty = 100, 0
	if refusal := charge("c", 1); refusal == nil || refusal.Ceiling != PropertyMinute {
		t.Errorf("a plan without live calls of a property: %+v", refusal)
	}
}

func testAccountsShareProperty(t *testing.T, c *budgets, id string) {
	plan := generousPlan()
	plan.LiveCallsPerMinutePerProperty = 2
	for i := range 3 {
		refusal := c.first().ChargeLiveCalls(fmt.Sprint(id, i), id, 1, plan)
		if (refusal != nil) != (i == 2) {
			t.Errorf("account %d: %+v", i, refusal)
		}
	}
	wantCounts(t, c, id+"2", 0, 0, 0)
}

func testRefund(t *testing.T, c *budgets, id string) {
	plan := generousPlan()
	plan.SearchConsoleCallsPerDay, plan.LiveCallsPerMinutePerProperty = 4, 5
	charge := func(property string, calls int) *Refusal {
		return c.first().ChargeLiveCalls(id, id+property, calls, plan)
	}
	today := c.first().Usage(id).At
	_, _ = c.first().Admit(id, id+"key", plan)
	if refusal := charge("a", 4); refusal != nil {
		t.Errorf("four of four: %+v", refusal)
	}
	wantRefusal(t, charge("b", 1), AccountCalls, 4, 24*time.Hour)
	c.replicas[len(c.replicas)-1].RefundLiveCalls(id, 2, today)
	wantCounts(t, c, id, 1, 1, 2)
	wantRefusal(t, charge("a", 2), PropertyMinute, 5, time.Minute) // the property gets no refund
	if refusal := charge("b", 2); refusal != nil {
		t.Errorf("refused what was refunded: %+v", refusal)
	}
	c.first().RefundLiveCalls(id, 3, today.Add(-24*time.Hour)) // of a past day
	wantCounts(t, c, id, 1, 1, 4)
	c.first().RefundLiveCalls(id, 100, today)
	wantCounts(t, c, id, 1, 1, 0)
	other := id + "other" // without a charge
	c.first().RefundLiveCalls(other, 1, today)
	wantCounts(t, c, other, 0, 0, 0)
	if refusal := c.first().ChargeLiveCalls(other, other, 5, plan); refusal == nil {
		t.Error("a refund without a charge granted a call")
	}
}

func testConcurrentRefunds(t *testing.T, c *budgets, id string) {
	today := c.first().Usage(id).At
	c.concurrently(50, func(_ int, b Budget) bool {
		if b.ChargeLiveCalls(id, id+"property", 2, generousPlan()) == nil {
			b.RefundLiveCalls(id, 1, today)
		}
		return true
	})
	wantCounts(t, c, id, 0, 0, 50)
}
