package policy

import (
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

// slowestOf calls ask n times concurrently and returns how long the slowest call took.
func slowestOf(n int, ask func(i int)) time.Duration {
	var mu sync.Mutex
	var most time.Duration
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() {
			begun := time.Now()
			ask(i)
			mu.Lock()
			defer mu.Unlock()
			most = max(most, time.Since(begun))
		})
	}
	done.Wait()
	return most
}

func (s *testRedisBudget) wantDegraded(t *testing.T, degraded bool, logged int) {
	t.Helper()
	gauge := 0.0
	if degraded {
		gauge = 1
	}
	if got := s.metric(t, "sara_budget_degraded"); s.Degraded() != degraded || got != gauge {
		t.Errorf("degraded %v, metric %v, want %v", s.Degraded(), got, degraded)
	}
	if lines := s.log.lines(); len(lines) != logged {
		t.Errorf("logged %d lines, want %d: %q", len(lines), logged, lines)
	}
}

func TestRedisBudgetAdmitsItsShareWhileRedisIsDownAndSyncsLater(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{replicas: 2})
	plan := generousPlan()
	plan.RequestsPerDay, plan.SearchConsoleCallsPerDay, plan.LiveCallsPerMinutePerProperty = 100, 40, 40
	admitN(s, 5, "a", "k", plan)
	server.Kill()

	if admitted, refusal := admitN(s, 60, "a", "k", plan); admitted != 47 {
		t.Errorf("admitted %d, want half of the 95 that were left; then %+v", admitted, refusal)
	} else if wantRefusal(t, refusal, AccountDay, 100, worthAnotherTry); !refusal.ByShare || refusal.Share != 47 {
		t.Errorf("the refusal %+v is not by a share of 47", refusal)
	}
	calls := 0
	for range 20 {
		if s.ChargeLiveCalls("a", "p", 1, plan) == nil {
			calls++
		}
	}
	if calls != 10 {
		t.Errorf("%d calls, want half a share, 10", calls)
	}
	if usage := s.Usage("a"); usage.RequestsToday != 52 || usage.CallsToday != 10 {
		t.Errorf("usage %+v", usage)
	}
	s.wantDegraded(t, true, 1)
	s.probeNow()
	s.wantDegraded(t, true, 1)

	server.Start() // without its data
	s.probeNow()
	s.wantDegraded(t, false, 3) // Redis is back, and had lost counts
	if usage := s.Usage("a"); usage.RequestsThisHour != 52 || usage.RequestsToday != 52 || usage.CallsToday != 10 {
		t.Errorf("usage %+v after the sync", usage)
	}
	if restored := s.metric(t, "sara_budget_restored_total"); restored != 5 {
		t.Errorf("%v requests were restored, want the 5 from before the outage", restored)
	}
	if admitted, _ := admitN(s, 60, "a", "k", plan); admitted != 48 {
		t.Errorf("admitted %d of the other 48", admitted)
	}

	// A second outage in the same window must not grant more.
	server.Kill()
	if admitted, _ := admitN(s, 10, "a", "k", plan); admitted != 0 {
		t.Errorf("admitted %d although the first outage used up the share of the day", admitted)
	}
}

func TestChargedMinuteIsTheReplicasShareWhileRedisIsDown(t *testing.T) {
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{replicas: 2})
	admitN(s, 1, "a", "k", generousPlan())
	server.Kill()
	passed := 0
	for range 40 {
		if _, refusal := s.ChargeMinute("a", "trial", Plan{}); refusal == nil {
			passed++
		}
	}
	s.wantDegraded(t, true, 1)
	if passed < 30 || passed > 31 { // a token comes back every two seconds
		t.Errorf("%d of 40 passed, want the share of 30", passed)
	}
	if usage := s.Usage("a"); usage.RequestsToday != 1 {
		t.Errorf("usage %+v", usage)
	}
}

func TestRedisBudgetRefusesNothingWhileRedisRestarts(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{})
	const endless = 1_000_000_000
	plan := Plan{RequestsPerMinutePerKey: endless, RequestsPerHour: endless, RequestsPerDay: endless}
	stop := make(chan struct{})
	var load sync.WaitGroup
	var refused sync.Map
	for range 16 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, refusal := s.Admit("a", "k", plan); refusal != nil {
					refused.Store(refusal.Ceiling, true)
				}
			}
		})
	}
	restarts := 3
	if testing.Short() {
		restarts = 1
	}
	for range restarts {
		server.Kill()
		for !s.Degraded() {
			runtime.Gosched()
		}
		server.Start()
		for s.Degraded() {
			s.probeNow()
		}
	}
	close(stop)
	load.Wait()
	refused.Range(func(ceiling, _ any) bool {
		t.Errorf("refused by ceiling %v", ceiling)
		return true
	})
	// One more line, if Redis had counted any when it was killed: a restart loses them, and lines about losses are a minute apart.
	if lines := len(s.log.lines()); s.Degraded() || lines < 2*restarts || lines > 2*restarts+1 {
		t.Errorf("degraded %v, logged %q", s.Degraded(), s.log.lines())
	}
}

func TestFrozenRedisDelaysRequestsOnceAndCountsThemOnce(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{})
	admitN(s, 7, "a", "k", generousPlan())
	_ = s.ChargeLiveCalls("a", "p", 1, generousPlan())
	server.Freeze()
	took := slowestOf(200, func(i int) {
		var refusal *Refusal
		if i%10 == 0 {
			refusal = s.ChargeLiveCalls("a", "p", 2, generousPlan())
		} else {
			_, refusal = s.Admit("a", "k", generousPlan())
		}
		if refusal != nil {
			t.Errorf("refused: %+v", refusal)
		}
	})
	t.Logf("the slowest of 200 requests took %v", took)
	if took > time.Second {
		t.Errorf("the slowest of 200 requests took %v", took)
	}
	s.wantDegraded(t, true, 1)
	server.Thaw()
	s.probeNow()
	s.wantDegraded(t, false, 2)
	// The commands that Redis found in its buffers after the thaw had expired: the requests were decided locally, and count once.
	if usage := s.Usage("a"); usage.RequestsThisHour != 187 || usage.RequestsToday != 187 || usage.CallsToday != 41 {
		t.Errorf("usage %+v, want 187 requests and 41 calls", usage)
	}
}

func TestRefundsWhileRedisIsDownCountOnce(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{})
	plan := generousPlan()
	_ = s.ChargeLiveCalls("a", "p", 5, plan)
	today := s.Usage("a").At
	server.Freeze()
	s.RefundLiveCalls("a", 1, today) // opens the circuit
	s.RefundLiveCalls("a", 1, today)
	s.RefundLiveCalls("a", 1, today.Add(-24*time.Hour))
	s.wantDegraded(t, true, 1)
	server.Thaw()
	s.probeNow()
	s.wantDegraded(t, false, 2)
	if usage := s.Usage("a"); usage.CallsToday != 3 {
		t.Errorf("usage %+v, want 3 calls", usage)
	}
	s.probeNow()
	if usage := s.Usage("a"); usage.CallsToday != 3 {
		t.Errorf("after another probe: usage %+v, want 3 calls", usage)
	}
}

func TestWrongRedisPasswordIsAnOutageWithThatReasonAndStaysOutOfTheLog(t *testing.T) {
	server := redistest.Single(t, "--requirepass", "right")
	s := startRedisBudget(t, strings.Replace(server.URL(), "://", "://:wrong-secret@", 1), redisOptions{})
	if admitted, refusal := admitN(s, 10, "a", "k", generousPlan()); admitted != 10 {
		t.Errorf("admitted %d, then %+v", admitted, refusal)
	}
	s.probeNow()
	s.wantDegraded(t, true, 1)
	text := strings.Join(s.log.lines(), "")
	if !strings.Contains(text, "Redis is down") || !strings.Contains(text, "WRONGPASS") {
		t.Errorf("the log does not say what is wrong: %s", text)
	}
	if strings.Contains(text, "wrong-secret") {
		t.Errorf("the log holds the password: %s", text)
	}
}

func TestScriptIsSentAgainAfterRedisLosesIt(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	ctx, control := t.Context(), server.Client()
	for i := range 3 {
		if err := control.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if usage, refusal := s.Admit("a", "k", generousPlan()); refusal != nil || usage.RequestsToday != i+1 {
			t.Errorf("request %d: %+v, %+v", i+1, usage, refusal)
		}
		if err := control.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if refusal := s.ChargeLiveCalls("a", "p", 1, generousPlan()); refusal != nil {
			t.Errorf("charge %d: %+v", i+1, refusal)
		}
	}
	if err := control.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if usage, refusal := s.Admit("a", "k", generousPlan()); refusal != nil || usage.RequestsToday != 4 || usage.CallsToday != 3 {
		t.Errorf("after FLUSHALL: %+v, %+v", usage, refusal)
	}
	s.wantDegraded(t, false, 0)
}

func TestClusterIsDownWhileANodeIsMissing(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	avoidHourEnd(t)
	s := startRedisBudget(t, cluster.URL(), redisOptions{patient: true})
	accounts := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	admitAll := func(n int) {
		t.Helper()
		for _, account := range accounts {
			if admitted, refusal := admitN(s, n, account, account, generousPlan()); admitted != n {
				t.Errorf("account %s: admitted %d of %d, then %+v", account, admitted, n, refusal)
			}
		}
	}
	admitAll(2)
	cluster.Nodes[1].Stop()
	admitAll(3)
	s.wantDegraded(t, true, 1)
	s.probeNow()
	s.probeNow()
	s.wantDegraded(t, true, 1)
	cluster.Nodes[1].Start()
	begun := time.Now()
	for s.Degraded() && time.Since(begun) < patience {
		s.probeNow()
	}
	s.probeNow()
	t.Logf("the circuit closed %v after the node was back", time.Since(begun))
	s.wantDegraded(t, false, 2)
	for _, account := range accounts {
		if usage := s.Usage(account); usage.RequestsToday != 5 {
			t.Errorf("account %s has %+v, want 5 requests", account, usage)
		}
	}
}

func TestCloseStopsAllGoroutines(t *testing.T) {
	server := redistest.Single(t)
	before := runtime.NumGoroutine()
	client, err := redisconn.Open(server.URL(), redisconn.StepTimeout)
	if err != nil {
		t.Fatal(err)
	}
	s := newTestRedisBudget(t, client, redisOptions{}, make(chan time.Time))
	admitN(s, 10, "a", "k", generousPlan())
	server.Kill()
	admitN(s, 10, "a", "k", generousPlan())
	s.Close()
	_ = client.Close()
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func TestNotesDescribeALossForAQuarterOfAnHour(t *testing.T) {
	clock := noon()
	log := &logBuffer{}
	losses := &lossLog{log: slog.New(slog.NewTextHandler(log, nil)), now: clock.now}
	losses.flush()
	if notes := losses.notes(); len(notes) != 0 || len(log.lines()) != 0 {
		t.Errorf("without a loss: notes %q, log %q", notes, log.lines())
	}
	for range 100 {
		losses.add(3, [4]int{0, 2, 0, 0})
		losses.flush()
	}
	clock.advance(59 * time.Second)
	losses.flush()
	if lines := log.lines(); len(lines) != 2 || !strings.Contains(lines[0], "count=3") || !strings.Contains(lines[1], "hour=0 day=2 calls=0 minute=0") {
		t.Errorf("logged %q", lines)
	}
	if notes := losses.notes(); len(notes) != 2 || notes[0] != "Redis lost counts, which this replica restored less than a minute ago" {
		t.Errorf("notes %q in the first minute", notes)
	}
	clock.advance(time.Second)
	losses.flush()
	if lines := log.lines(); len(lines) != 4 || !strings.Contains(lines[2], "count=297") {
		t.Errorf("logged %q", lines)
	}
	want := []string{"Redis lost counts, which this replica restored 1 minute ago", "requests were admitted beyond a limit 1 minute ago"}
	if notes := losses.notes(); !slices.Equal(notes, want) {
		t.Errorf("notes %q, want %q", notes, want)
	}
	clock.advance(lossRecent)
	if notes := losses.notes(); len(notes) != 0 {
		t.Errorf("notes %q after a quarter of an hour", notes)
	}
	for _, c := range []struct {
		lost       int
		over       [4]int
		line, note string // the only ones
	}{
		{0, [4]int{1, 0, 0, 0}, "hour=1 day=0", "requests were admitted beyond a limit less than a minute ago"},
		{1, [4]int{}, "count=1", "Redis lost counts, which this replica restored less than a minute ago"},
	} {
		before := len(log.lines())
		losses.add(c.lost, c.over)
		losses.flush()
		lines, notes := log.lines()[before:], losses.notes()
		if len(lines) != 1 || !strings.Contains(lines[0], c.line) || !slices.Equal(notes, []string{c.note}) {
			t.Errorf("logged %q, notes %q, want %q and %q", lines, notes, c.line, c.note)
		}
		clock.advance(lossRecent)
	}
}

// A refusal by a share says so: the client is within its plan.
func TestRefusalByAShareNamesTheShare(t *testing.T) {
	clock, plan := noon(), generousPlan()
	plan.RequestsPerMinutePerKey, plan.RequestsPerDay = 60, 1000
	budget := newMemoryBudget(clock.now, func() int { return 3 }, 2)
	admitted, refusal := admitN(budget, 32, "a", "k", plan)
	if admitted != 20 {
		t.Errorf("admitted %d, want a third of 60", admitted)
	}
	const minute = "this replica's share of the key's 60 requests a minute, 20, is used up: " +
		"the counters that replicas share are unavailable; try again in 3 seconds"
	if d := newRefusalTexts().denial(refusal); d.Code != CodeRateLimited || d.Message != minute || d.RetryAfter != 3*time.Second {
		t.Errorf("denied with %+v", d)
	}
	budget.know(UsageCount{AccountID: "b", Hour: int64(hourOf(clock.now())), Day: hourOf(clock.now()).day(), InDay: 994})
	budget.beginOutage()
	plan.RequestsPerMinutePerKey = 100_000
	admitted, refusal = admitN(budget, 10, "b", "k2", plan)
	const day = "this replica's share of the account's 1000 requests a day, 2, is used up: " +
		"the counters that replicas share are unavailable; try again in 60 seconds"
	if d := newRefusalTexts().denial(refusal); admitted != 2 || d.Code != CodeQuotaExceeded || d.Message != day {
		t.Errorf("admitted %d of the 6 that were left, denied with %+v", admitted, d)
	}
}

// What is left of a day decides what a client is told: the end of the day if all is used up, otherwise that another replica may admit it.
func TestSharesOfWhatIsLeft(t *testing.T) {
	for _, c := range []struct {
		seenHour, seenDay int // of 100 and 1000
		admitted          int
		ceiling           Ceiling
		byShare           bool
	}{
		{0, 994, 2, AccountDay, true},
		{0, 998, 0, AccountDay, true},
		{0, 999, 0, AccountDay, true},
		{0, 1000, 0, AccountDay, false},
		{0, 1001, 0, AccountDay, false},
		{94, 0, 2, AccountHour, true},
		{100, 999, 0, AccountHour, false}, // the hour lasts longer than the minute after which another replica may admit it
		{100, 1000, 0, AccountDay, false},
	} {
		clock, plan := noon(), generousPlan()
		plan.RequestsPerHour, plan.RequestsPerDay = 100, 1000
		budget := newMemoryBudget(clock.now, func() int { return 3 }, 2)
		now := hourOf(clock.now())
		budget.know(UsageCount{AccountID: "a", Hour: int64(now), Day: now.day(), InHour: c.seenHour, InDay: c.seenDay})
		budget.beginOutage()
		admitted, refusal := admitN(budget, 10, "a", "k", plan)
		if admitted != c.admitted || refusal.Ceiling != c.ceiling || refusal.ByShare != c.byShare {
			t.Errorf("after %d requests of the hour and %d of the day: admitted %d, then %+v", c.seenHour, c.seenDay, admitted, refusal)
		}
		if byShare := refusal.RetryAfter == worthAnotherTry; byShare != c.byShare {
			t.Errorf("after %d requests of the hour and %d of the day: try again in %v", c.seenHour, c.seenDay, refusal.RetryAfter)
		}
		clock.advance(now.end().Sub(clock.now()))
		if admitted, _ = admitN(budget, 50, "a", "k", plan); c.seenDay == 0 && admitted != 33 {
			t.Errorf("in the next hour: admitted %d of a third of 100", admitted)
		}
	}
}

// A returned call makes no room while more are charged than a limit that was lowered since.
func TestReturnedCallMakesNoRoomBeyondALoweredLimit(t *testing.T) {
	clock, plan := noon(), generousPlan()
	plan.SearchConsoleCallsPerDay = 10
	budget := NewMemoryBudget(clock.now)
	now := hourOf(clock.now())
	budget.know(UsageCount{AccountID: "a", Hour: int64(now), Day: now.day(), Calls: 12})
	budget.beginOutage()
	for range 2 {
		budget.RefundLiveCalls("a", 1, clock.now())
		wantRefusal(t, budget.ChargeLiveCalls("a", "p", 1, plan), AccountCalls, 10, 24*time.Hour)
	}
	budget.RefundLiveCalls("a", 1, clock.now())
	if refusal := budget.ChargeLiveCalls("a", "p", 1, plan); refusal != nil {
		t.Errorf("the tenth call of ten: %+v", refusal)
	}
}

// A key with fewer requests a minute than there are replicas is not locked out.
func TestEachShareOfAMinuteHasARequest(t *testing.T) {
	plan := generousPlan()
	plan.RequestsPerMinutePerKey = 2
	budget := newMemoryBudget(noon().now, func() int { return 3 }, 2)
	if admitted, refusal := admitN(budget, 3, "a", "k", plan); admitted != 1 || !refusal.ByShare || refusal.Share != 1 {
		t.Errorf("admitted %d, then %+v", admitted, refusal)
	}
}

// The reply to a batch may be lost, so that Redis has more of a replica than the replica. Then the usage is what Redis shows.
func TestRedisHasMoreOfAReplicaThanTheReplica(t *testing.T) {
	clock, plan := noon(), generousPlan()
	budget := newMemoryBudget(clock.now, func() int { return 1 }, 1)
	admitN(budget, 3, "a", "k", plan)
	shown := Usage{RequestsThisHour: 5, RequestsToday: 5, At: clock.now()}
	budget.admitted("a", &plan, verdict{total: shown, own: packed(hourOf(clock.now()).day(), 5)}, nil)
	if usage := budget.Usage("a"); usage.RequestsThisHour != 5 || usage.RequestsToday != 5 {
		t.Errorf("usage %+v, want 5", usage)
	}
}

// A replica knows how many requests all have made. If Redis has fewer, then it has lost some, even if it has all of this replica's.
func TestALossOfOthersRequestsIsRestored(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	first := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	second := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	plan := generousPlan()
	plan.RequestsPerDay = 7
	admitN(first, 4, "a", "key", plan)
	admitN(second, 1, "a", "key", plan)
	ctx, control := t.Context(), server.Client()
	control.HDel(ctx, accountKey("a"), "b:"+first.replica)
	control.HSet(ctx, accountKey("a"), "hn", 1, "dn", 1)
	if admitted, _ := admitN(second, 4, "a", "key", plan); admitted != 2 {
		t.Errorf("admitted %d of the 2 requests that are left of 7", admitted)
	}
}

// Redis must answer each part within a round trip, however many keys the accounts have.
func TestRestoresAreSplitByAccountsAndKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ keys, want []int }{
		{nil, nil},
		{[]int{20000}, []int{1}},
		{[]int{1, 20000, 1, 4999, 1}, []int{1, 1, 2, 1}},
		{slices.Repeat([]int{1000}, 200), slices.Repeat([]int{5}, 40)},
		{slices.Repeat([]int{1}, 401), []int{200, 200, 1}},
	} {
		entries := make([]ledgerEntry, len(test.keys))
		for i, n := range test.keys {
			entries[i].keys = make([]drainedKey, n)
		}
		var got []int
		for part := range restoreBatches(entries) {
			got = append(got, len(part))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%v: the parts have %v accounts, want %v", test.keys, got, test.want)
		}
	}
}

// Plans allow any number of keys, and Lua passes at most 8,000 arguments to a command.
func TestAccountWithThousandsOfKeysIsRestored(t *testing.T) {
	avoidHourEnd(t)
	const keys = 4500
	server := redistest.Single(t)
	s := startRedisBudget(t, server.URL(), redisOptions{patient: true})
	plan := generousPlan()
	plan.RequestsPerHour, plan.RequestsPerDay = 2*keys, 2*keys
	server.Kill()
	for i := range keys {
		admitN(s, 1, "a", strconv.Itoa(i), plan)
	}
	server.Start()
	s.probeNow()
	s.wantDegraded(t, false, 2)
	if usage := s.Usage("a"); usage.RequestsToday != keys {
		t.Errorf("%d requests are counted, want %d", usage.RequestsToday, keys)
	}
}

// After a loss, Redis holds requests that no replica claims: the one that admitted them has ended. What others admit in a later
// outage is not among them: Redis never had it.
func TestRequestsOfAnOutageCountAfterALossOfAReplicaThatHasEnded(t *testing.T) {
	avoidHourEnd(t)
	server := redistest.Single(t)
	plan := generousPlan()
	plan.RequestsPerHour, plan.RequestsPerDay = 1000, 1000
	ended := newTestRedisBudget(t, server.Client(), redisOptions{patient: true}, make(chan time.Time))
	admitN(ended, 100, "a", "key", plan)
	ended.Close()
	replicas := []*testRedisBudget{startRedisBudget(t, server.URL(), redisOptions{patient: true, replicas: 2}),
		startRedisBudget(t, server.URL(), redisOptions{patient: true, replicas: 2})}
	all := func(do func(s *testRedisBudget)) {
		for _, s := range replicas {
			do(s)
		}
	}
	probe := (*testRedisBudget).probeNow
	wanted := func(want int) {
		t.Helper()
		for i, s := range replicas {
			if usage := s.Usage("a"); usage.RequestsToday != want || usage.RequestsThisHour != want {
				t.Errorf("replica %d shows %d requests (%d this hour), want %d", i, usage.RequestsToday, usage.RequestsThisHour, want)
			}
		}
	}
	all(func(s *testRedisBudget) { admitN(s, 1, "a", "key", plan) })
	wanted(102)
	server.Kill() // with its data
	all(probe)
	server.Start()
	all(probe)
	wanted(102)
	if ttl := server.Client().TTL(t.Context(), accountKey("a")).Val(); ttl <= 24*time.Hour || ttl > 48*time.Hour {
		t.Errorf("the restored counts expire in %v", ttl)
	}
	server.Stop()
	all(probe)
	all(func(s *testRedisBudget) { admitN(s, 50, "a", "key", plan) })
	server.Start()
	all(probe)
	wanted(202)
}
