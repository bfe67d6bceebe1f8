package policy

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sara/policy/redistest"
)

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
