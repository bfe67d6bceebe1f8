// Package measure runs one loop of requests against a testbed, and measures the speed of the answers and their cost in all
// processes, Redis and the simulator.
//
// A Rig belongs to one goroutine. An answer with an unexpected status is an error, like a failed request, so that no figure
// includes one.
package measure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/procstat"
	"sara/bench/internal/report"
	"sara/bench/internal/testbed"
	"sara/policy/redisconn"
)

// The names of processes in a report.
const (
	Sara   = "sara" // all replicas
	Redis  = "redis"
	Client = "client" // this process, with the simulator in it
)

// A Rig is a testbed with the instruments to measure it.
type Rig struct {
	*testbed.Testbed
	http  *http.Client     // for the replicas' metrics
	redis redisconn.Client // for the counters of the testbed's Redis
}

// Start starts a testbed, always with a Redis.
func Start(ctx context.Context, c testbed.Config) (*Rig, error) {
	c.Redis = true
	b, err := testbed.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	const patience = time.Minute
	redis, err := redisconn.Open("redis://"+b.Redis.Address, patience)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return &Rig{Testbed: b, http: &http.Client{Timeout: patience}, redis: redis}, nil
}

// Close stops everything.
func (r *Rig) Close() error {
	r.http.CloseIdleConnections()
	return errors.Join(r.redis.Close(), r.Testbed.Close())
}

// Loop measures one loop, all answers of which must have one of the statuses.
func (r *Rig) Loop(ctx context.Context, scenario string, load loadgen.Load, statuses ...int) (*report.Measurement, error) {
	reader := r.reader()
	if err := reader.Calibrate(ctx); err != nil {
		return nil, err
	}
	before, err := reader.Before(ctx)
	if err != nil {
		return nil, err
	}
	calls := r.Calls()
	result, err := load.Run(ctx)
	if err != nil {
		return nil, err
	}
	after, err := reader.After(ctx)
	if err != nil {
		return nil, err
	}
	if err := result.Unexpected(statuses...); err != nil {
		return nil, err
	}
	m := &report.Measurement{
		Scenario: scenario, Loop: kind(load), Connections: load.Connections, Rate: load.Rate, Requests: result.Requests(),
		Statuses: result.Statuses, Cache: result.Cache, Took: report.Seconds(result.Elapsed.Seconds()), Throughput: result.Throughput(),
		Latency: latency(result), Curve: curve(result), Resident: resident(after),
	}
	m.Request = cost(result, reader.Since(before, after), r.Calls()-calls)
	m.Held, err = r.held(ctx)
	return m, err
}

// reader reads the counters of all replicas, Redis and this process.
func (r *Rig) reader() *procstat.Reader {
	servers := []procstat.Server{{Name: Redis, PID: r.Redis.PID}, {Name: Client, PID: os.Getpid()}}
	for i, replica := range r.Replicas {
		servers = append(servers, procstat.Server{Name: fmt.Sprint(Sara, i), PID: replica.PID, Metrics: replica.AdminURL + "/metrics"})
	}
	return &procstat.Reader{Servers: servers, Redis: r.redis, Client: r.http}
}

// held reads the size of the memory caches of all replicas.
func (r *Rig) held(ctx context.Context) (held report.Held, err error) {
	for _, replica := range r.Replicas {
		metrics, err := procstat.ReadMetrics(ctx, r.http, replica.AdminURL+"/metrics")
		if err != nil {
			return held, err
		}
		held.Entries += metrics["sara_cache_memory_entries"]
		held.Bytes += metrics["sara_cache_memory_bytes"]
	}
	return held, nil
}

// kind returns which of the kinds of loops a load is.
func kind(load loadgen.Load) string {
	switch {
	case load.Rate > 0:
		return report.Open
	case load.Requests > 0:
		return report.Once
	}
	return report.Closed
}

// Milliseconds converts a duration to the unit of reports.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func latency(r *loadgen.Result) report.Latency {
	at := func(percent float64) float64 { return Milliseconds(r.Percentile(percent)) }
	return report.Latency{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: Milliseconds(r.Max())}
}

func curve(r *loadgen.Result) (curve []float64) {
	for _, percent := range report.CurvePercentiles() {
		curve = append(curve, Milliseconds(r.Percentile(percent)))
	}
	return curve
}

// commandsInScripts returns the Redis commands that sara's scripts call. Almost nothing else calls them: sara itself
// sends some, such as GET, on rare paths and in a cluster, and a SET for rows of more than 64 KiB, which Redis counts together with those in
// scripts. So the commands of a miss of 25,000 rows, and their time, lack one.
func commandsInScripts() []string {
	return []string{"time", "hget", "hmget", "hset", "hgetall", "hdel", "hlen", "expire", "hincrby", "zadd", "zcard", "zrem", "zrange", "zrangebyscore",
		"pexpire", "unlink", "get", "getrange", "strlen", "set", "del", "publish"}
}

// process returns the name of a server in reports: all replicas are sara.
func process(server string) string {
	if strings.HasPrefix(server, Sara) {
		return Sara
	}
	return server
}

func resident(r *procstat.Reading) map[string]int64 {
	bytes := map[string]int64{}
	for name, p := range r.Processes {
		bytes[process(name)] += p.Resident
	}
	return bytes
}

// cost divides the resources used by the number of requests.
func cost(result *loadgen.Result, used procstat.Used, calls int64) report.Cost {
	n := float64(max(1, result.Requests()))
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / n }
	c := report.Cost{
		CPU: map[string]float64{}, RedisCalls: float64(used.Redis.Calls(commandsInScripts()...)) / n, RedisReads: float64(used.Redis.Reads) / n,
		Upstream: float64(calls) / n, Bytes: float64(result.Received) / n,
	}
	for name, p := range used.Processes {
		c.CPU[process(name)] += micros(p.CPU())
	}
	var inCommands time.Duration
	for _, name := range commandsInScripts() { // the scripts' time contains theirs
		inCommands -= used.Redis.Commands[name].Took
	}
	for _, command := range used.Redis.Commands {
		inCommands += command.Took
	}
	c.RedisCommand = micros(inCommands)
	for _, heap := range used.Heaps {
		c.Objects += heap.Objects / n
		c.Allocated += heap.Bytes / n
	}
	return c
}
