package policy

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

// BenchmarkRedisBudget measures one admission through a real Redis. It reports the caller's wait, the CPU time of this process
// and of Redis, and the round trips, all per admission. "naive" runs the same script once per request.
func BenchmarkRedisBudget(b *testing.B) {
	server := redistest.Single(b)
	for _, accounts := range []int{1, 100} {
		for _, callers := range []int{1, 16, 128} {
			name := fmt.Sprintf("accounts=%d/callers=%d", accounts, callers)
			b.Run(name+"/batched", func(b *testing.B) {
				s := startRedisBudget(b, server.URL(), redisOptions{patient: true})
				benchmarkRedisBudget(b, server, accounts, callers, func(account, key string, p Plan) bool {
					_, refusal := s.Admit(account, key, p)
					return refusal == nil && !s.Degraded()
				})
			})
			b.Run(name+"/naive", func(b *testing.B) {
				client, err := redisconn.Open(server.URL(), redisconn.StepTimeout)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = client.Close() }()
				script := redis.NewScript(admitLua)
				benchmarkRedisBudget(b, server, accounts, callers, func(account, key string, p Plan) bool {
					numbers, err := script.Run(context.Background(), client, []string{accountKey(account)}, time.Now().Add(time.Minute).UnixMicro(),
						"b:replica", p.RequestsPerMinutePerKey, p.RequestsPerHour, p.RequestsPerDay, 0, 0, 0, 0, 1, key, 1, 0).Int64Slice()
					return err == nil && numbers[len(numbers)-3] == 0
				})
			})
		}
	}
}

func benchmarkRedisBudget(b *testing.B, server *redistest.Server, accounts, callers int, admit func(account, key string, p Plan) bool) {
	const endless = 1_000_000_000
	plan := Plan{APIAccess: true, RequestsPerMinutePerKey: endless, RequestsPerHour: endless, RequestsPerDay: endless}
	ids := make([]string, accounts)
	for i := range ids {
		ids[i] = "account-" + strconv.Itoa(i)
		admit(ids[i], ids[i]+"-key", plan)
	}
	control := server.Client()
	redisBefore, tripsBefore, ownBefore := redisCPU(b, control), roundTrips(b, control), ownCPU(b)
	var next atomic.Int64
	var refused atomic.Int64
	var done sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range callers {
		done.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				id := ids[int(i)%accounts]
				if !admit(id, id+"-key", plan) {
					refused.Add(1)
				}
			}
		})
	}
	done.Wait()
	b.StopTimer()
	if n := refused.Load(); n > 0 {
		b.Fatalf("%d of %d were not admitted by Redis", n, b.N)
	}
	n := float64(b.N)
	b.ReportMetric((redisCPU(b, control)-redisBefore)*1e6/n, "redis-µs/op")
	b.ReportMetric((ownCPU(b)-ownBefore)*1e6/n, "own-µs/op")
	b.ReportMetric((roundTrips(b, control)-tripsBefore)/n, "trips/op")
	b.ReportMetric(b.Elapsed().Seconds()*1e6*float64(callers)/n, "wait-µs/op")
}

// redisCPU returns the CPU time that Redis has used, in seconds.
func redisCPU(tb testing.TB, control redisconn.Client) float64 {
	tb.Helper()
	info := redisInfo(tb, control, "cpu")
	return infoNumber(tb, info, "used_cpu_user:", "\r") + infoNumber(tb, info, "used_cpu_sys:", "\r")
}

// roundTrips returns the number of script calls that Redis has run.
func roundTrips(tb testing.TB, control redisconn.Client) float64 {
	tb.Helper()
	return infoNumber(tb, redisInfo(tb, control, "commandstats"), "cmdstat_evalsha:calls=", ",")
}

func redisInfo(tb testing.TB, control redisconn.Client, section string) string {
	tb.Helper()
	info, err := control.Info(context.Background(), section).Result()
	if err != nil {
		tb.Fatal(err)
	}
	return info
}

// infoNumber returns the number between before and after, or 0 if there is none.
func infoNumber(tb testing.TB, info, before, after string) float64 {
	tb.Helper()
	_, rest, found := strings.Cut(info, before)
	if !found {
		return 0
	}
	text, _, _ := strings.Cut(rest, after)
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return number
}

func ownCPU(tb testing.TB) float64 {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
