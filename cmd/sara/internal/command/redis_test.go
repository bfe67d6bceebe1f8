package command

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/service"
	"sara/cmd/sara/internal/settings"
	"sara/policy"
	"sara/policy/redisconn"
	"sara/policy/redistest"
	"sara/proxy"
	"sara/proxy/redisrows"
)

// openBudgets opens the budgets of a command line of serve.
func openBudgets(t *testing.T, log *strings.Builder, args ...string) service.Budgets {
	t.Helper()
	return openBudgetsOf(t, log, parseServe(t, args...))
}

func openBudgetsOf(t *testing.T, log *strings.Builder, command *serveCommand) service.Budgets {
	t.Helper()
	budgets, err := service.OpenBudgets(t.Context(), service.BudgetConfig{Location: command.RedisURL, Rows: command.SharedRows,
		RowBytes: command.RedisCacheBytes.Bytes, Replicas: 1, Log: service.OpenLogs(log, settings.Log{}).Logger,
		Registry: prometheus.NewRegistry(), Now: time.Now, Store: clitest.New(t, sara).Open(time.Now)})
	if err != nil {
		t.Fatal(err)
	}
	return budgets
}

func rowOf(account string, n, size int) *redisrows.Outcome {
	key := fmt.Sprintf("sara:c:{%s %d}:%016x", account, n%7, n)
	return &redisrows.Outcome{Key: key, Account: account, Value: []byte(strings.Repeat("x", size)), Lease: key + ":lease", Channel: "events",
		Event: []byte("done"), Refused: []byte("refused")}
}

// A small Redis that never evicts has the counters and the rows. One account's rows flood it: the day of another account is
// counted exactly, in Redis, and no process counts for itself.
func TestFloodOfRowsLeavesCountersExact(t *testing.T) {
	if testing.Short() {
		t.Skip("takes over a second")
	}
	if left := 24*time.Hour - time.Duration(time.Now().UnixNano())%(24*time.Hour); left < time.Minute {
		t.Skip("the day ends")
	}
	server := redistest.Single(t, "--maxmemory", "8mb", "--maxmemory-policy", "noeviction")
	var log strings.Builder
	budgets := openBudgets(t, &log, "--redis-url", server.URL())
	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	for writer := range 2 {
		flood.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				account := []string{"flood", "flood", fmt.Sprint("account ", n%50)}[n%3]
				if err := budgets.Rows.Publish(ctx, rowOf(account, 2*n+writer, 100<<10+n%1000*500)); err != nil && ctx.Err() == nil {
					t.Errorf("row %d: %v", n, err)
				}
			}
		})
	}
	plan := policy.Plan{RequestsPerMinutePerKey: 1000, RequestsPerHour: 1000, RequestsPerDay: 100}
	admitted := 0
	for n := range 200 {
		if _, refusal := budgets.Budget.Admit("quiet", fmt.Sprint("key ", n), plan); refusal == nil {
			admitted++
		}
		budgets.Budget.Admit(fmt.Sprint("account ", n), "key", plan) // other counters come in between
	}
	stop()
	flood.Wait()
	if admitted != 100 {
		t.Errorf("%d requests of 100 a day are admitted", admitted)
	}
	degraded := budgets.Degraded()
	budgets.Close() // and with it the log
	if degraded || strings.Contains(log.String(), "Redis is down") {
		t.Errorf("this process counts for itself:\n%s", log.String())
	}
	if n := server.Client().HGet(t.Context(), "sara:{quiet}:use", "dn").Val(); n != "100" {
		t.Errorf("Redis counted %s requests", n)
	}
}

// Something else has filled the memory, and rows are in it: they are deleted before a count fails.
func TestFullRedisCountsOnceRowsAreDeleted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes over a second")
	}
	server := redistest.Single(t, "--maxmemory", "8mb", "--maxmemory-policy", "noeviction")
	var log strings.Builder
	budgets := openBudgets(t, &log, "--redis-url", server.URL())
	for n := range 40 {
		if err := budgets.Rows.Publish(t.Context(), rowOf(fmt.Sprint("account ", n%8), n, 90<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Client().ConfigSet(t.Context(), "maxmemory", "4mb").Err(); err != nil { // as if something else took the other half
		t.Fatal(err)
	}
	plan := policy.Plan{RequestsPerMinutePerKey: 1000, RequestsPerHour: 1000, RequestsPerDay: 100}
	usage, refusal := budgets.Budget.Admit("quiet", "key", plan)
	degraded := budgets.Degraded()
	budgets.Close() // and with it the log
	if refusal != nil || usage.RequestsToday != 1 || degraded {
		t.Errorf("admitted with %+v, %+v, degraded %v:\n%s", usage, refusal, degraded, log.String())
	}
}

func TestRedisCacheURLNeedsRedisURL(t *testing.T) {
	c := clitest.New(t, sara)
	c.Fails(ExitUsage, []string{"serve", "--check", "--redis-cache-url", "redis://127.0.0.1:1"},
		"sara: SARA_REDIS_CACHE_URL (--redis-cache-url): it needs SARA_REDIS_URL too, since one process alone")
}

// A Redis that is busy answers late. It takes a command longer than a request, which has memory to fall back on.
func TestServeCheckWaitsForABusyRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	c := clitest.New(t, sara).With("SARA_REDIS_URL=" + server.URL())
	if err := server.Client().ClientPause(t.Context(), 5*redisconn.StepTimeout).Err(); err != nil {
		t.Fatal(err)
	}
	c.OK("serve", "--check")
}

func TestRedisCacheURLIsChecked(t *testing.T) {
	counters, rows := redistest.Single(t), redistest.Single(t, "--requirepass", "sesame")
	c := clitest.New(t, sara)
	c.Env = append(c.Env, "SARA_REDIS_URL="+counters.URL())
	address := "redis://:hunter2@" + rows.Addr()
	c.With("SARA_REDIS_CACHE_URL="+address).Fails(ExitError, []string{"serve", "--check"}, "sara: SARA_REDIS_CACHE_URL: redis://"+
		rows.Addr()+" does not answer: WRONGPASS")
	said := c.With("SARA_REDIS_CACHE_URL=redis://:sesame@"+rows.Addr()).OK("serve", "--check", "--redis-cache-bytes", "1GiB")
	for _, want := range []string{"SARA_REDIS_CACHE_URL redis://" + rows.Addr(), "SARA_REDIS_CACHE_BYTES 1GiB"} {
		if !strings.Contains(strings.Join(strings.Fields(said), " "), want) {
			t.Errorf("the report lacks %q:\n%s", want, said)
		}
	}
	if strings.Contains(c.Said.String(), "hunter2") || strings.Contains(said, "sesame") {
		t.Error("a password is shown")
	}
}

func TestCacheSharesTheClientOfTheSameURL(t *testing.T) {
	server := redistest.Single(t)
	var log strings.Builder
	for _, args := range [][]string{{"--redis-url", server.URL()}, {"--redis-url", server.URL(), "--redis-cache-url", server.URL()}} {
		budgets := openBudgets(t, &log, args...)
		if budgets.Rows.Separate() || budgets.Rows.Client() != budgets.Redis {
			t.Errorf("%v: the rows have a client of their own", args)
		}
		budgets.Close()
	}
}

// Each of the two URLs may be that of a single server, of a Sentinel or of a cluster. On a busy machine the first connection takes
// longer than a step may, so that each is tried until it works.
func TestRedisFormsMix(t *testing.T) {
	t.Parallel()
	waitForCluster, sentinel, single := redistest.StartCluster(t), redistest.Sentinel(t), redistest.Single(t)
	cluster := waitForCluster()
	const enough = 10_000
	plan := policy.Plan{RequestsPerMinutePerKey: enough, RequestsPerHour: enough, RequestsPerDay: enough}
	for n, urls := range [][2]string{{sentinel.URL(), cluster.URL()}, {cluster.URL(), sentinel.URL()}, {cluster.URL(), single.URL()}} {
		var log strings.Builder
		budgets := openBudgets(t, &log, "--redis-url", urls[0], "--redis-cache-url", urls[1])
		row := rowOf("a", n, 1000)
		clitest.Poll(t, "rows on "+urls[1], func() bool {
			return budgets.Rows.Publish(t.Context(), row) == nil && budgets.Rows.Client().Get(t.Context(), row.Key).Err() == nil
		})
		clitest.Poll(t, "counters on "+urls[0], func() bool {
			_, refusal := budgets.Budget.Admit(fmt.Sprint("account ", n), "key", plan)
			return refusal == nil && !budgets.Degraded() && budgets.Redis.DBSize(t.Context()).Val() > 0
		})
		budgets.Close()
	}
}

// An eviction policy that may delete counters is noted by serve --check and at start, and a problem of the status.
func TestEvictionPolicyIsReported(t *testing.T) {
	counters, rows := redistest.Single(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"),
		redistest.Single(t, "--maxmemory-policy", "allkeys-lru")
	c := clitest.New(t, sara)
	c.OK("migrate")
	c.Env = append(c.Env, "SARA_REDIS_URL="+counters.URL(), "SARA_REDIS_CACHE_URL="+rows.URL())
	replica := fakeReplica(t, http.StatusOK, proxy.Status{State: proxy.StateReady})
	const problem = "the Redis of SARA_REDIS_URL evicts keys when its memory is full (maxmemory-policy allkeys-lru)"
	check := func(want bool) {
		t.Helper()
		if said := c.OK("serve", "--check"); strings.Contains(said, "Note: "+problem) != want {
			t.Errorf("serve --check, problem %v:\n%s", want, said)
		}
		var log strings.Builder
		command := parseServe(t, "--redis-url", counters.URL(), "--collect", "off")
		if err := command.preflight(t.Context(), service.OpenLogs(&log, settings.Log{}).Logger); err != nil ||
			strings.Contains(log.String(), problem) != want {
			t.Errorf("at start, problem %v: %v\n%s", want, err, log.String())
		}
		_, report := statusOf(c, "--replica", replica)
		if said := strings.Join(report.Attention, "\n"); strings.Contains(said, problem) != want || report.Cache == nil ||
			console.Cell(report.Cache.Policy) != "allkeys-lru" {
			t.Errorf("status, problem %v: %q, cache %+v", want, said, report.Cache)
		}
	}
	check(true)
	if err := counters.Client().ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	check(false)
	if _, table, _ := c.Run("status", "--replica", replica); !strings.Contains(table, "REDIS of cached rows\n") ||
		!strings.Contains(table, "noeviction") {
		t.Errorf("for people:\n%s", table)
	}
	rows.Kill()
	if _, report := statusOf(c, "--replica", replica); report.Redis.State != "ok" || report.Cache.State != "unreachable" ||
		!strings.Contains(strings.Join(report.Attention, "\n"), "SARA_REDIS_CACHE_URL: "+rows.URL()+" does not answer") {
		t.Errorf("without the Redis of rows: %v", report.Attention)
	}
}
