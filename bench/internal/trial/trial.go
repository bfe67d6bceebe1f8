// Package trial measures one loop of requests against a stage: how fast the answers came, and what all processes, Redis and
// the simulator did for them. What is asked, and how long, is the caller's business.
//
// A Rig is for one goroutine. An answer with a status that is not expected is an error, and so is an exchange that fails:
// a figure never has them in it.
package trial

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/bench/internal/gauge"
	"sara/bench/internal/report"
	"sara/bench/internal/stage"
	"sara/bench/internal/wire"
)

// The names of processes in a report.
const (
	Sara   = "sara" // all replicas
	Redis  = "redis"
	Client = "client" // this process, with the simulator in it
)

// A Rig is a stage with what measures it.
type Rig struct {
	Stage  *stage.Stage
	HTTP   *http.Client  // for the replicas' metrics and profiles
	counts *redis.Client // of the stage's Redis
}

// Start starts a stage, with a Redis whatever the Config says, and what measures it.
func Start(ctx context.Context, c stage.Config) (*Rig, error) {
	c.Redis = true
	s, err := stage.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Rig{Stage: s, HTTP: &http.Client{Timeout: time.Minute}, counts: redis.NewClient(&redis.Options{Addr: s.Redis.Address})}, nil
}

// Close stops everything.
func (r *Rig) Close() error {
	r.HTTP.CloseIdleConnections()
	return errors.Join(r.counts.Close(), r.Stage.Close())
}

// Address returns the host and port of a replica.
func (r *Rig) Address(replica int) (string, error) {
	u, err := url.Parse(r.Stage.Replicas[replica].URL)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

// Drive measures one loop. All its answers have to have one of the statuses.
func (r *Rig) Drive(ctx context.Context, scenario string, load wire.Load, statuses ...int) (*report.Measurement, error) {
	g := r.gauge()
	if err := g.Calibrate(ctx); err != nil {
		return nil, err
	}
	before, err := g.Before(ctx)
	if err != nil {
		return nil, err
	}
	calls := r.Stage.Simulator.Calls().SearchAnalytics
	result, err := load.Run(ctx)
	if err != nil {
		return nil, err
	}
	after, err := g.After(ctx)
	if err != nil {
		return nil, err
	}
	if err := Unexpected(result, statuses...); err != nil {
		return nil, err
	}
	m := &report.Measurement{
		Scenario: scenario, Loop: loopOf(load), Connections: load.Connections, Rate: load.Rate, Requests: result.Requests(),
		Statuses: result.Statuses, Cache: result.Cache, Took: report.Seconds(result.Elapsed.Seconds()), Throughput: result.Throughput(),
		Latency: latency(result), Curve: curve(result), Resident: resident(after),
	}
	m.Request = cost(result, g.Since(before, after), r.Stage.Simulator.Calls().SearchAnalytics-calls)
	m.Held, err = r.held(ctx)
	return m, err
}

// held asks the replicas what they have in memory.
func (r *Rig) held(ctx context.Context) (held report.Held, err error) {
	for _, replica := range r.Stage.Replicas {
		metrics, err := gauge.ReadMetrics(ctx, r.HTTP, replica.AdminURL+"/metrics")
		if err != nil {
			return held, err
		}
		held.Entries += metrics["sara_cache_memory_entries"]
		held.Bytes += metrics["sara_cache_memory_bytes"]
	}
	return held, nil
}

// AskOnce asks each of these once, and returns an error unless all are answered with a 200.
func (r *Rig) AskOnce(ctx context.Context, address string, requests ...[]byte) error {
	const atOnce = 4
	load := wire.Load{Addresses: []string{address}, Source: wire.Rotate(requests...), Connections: atOnce, Requests: int64(len(requests))}
	result, err := load.Run(ctx)
	if err != nil {
		return err
	}
	return Unexpected(result, http.StatusOK)
}

// gauge watches all replicas, Redis and this process.
func (r *Rig) gauge() *gauge.Gauge {
	servers := []gauge.Server{{Name: Redis, PID: r.Stage.Redis.PID}, {Name: Client, PID: os.Getpid()}}
	for i, replica := range r.Stage.Replicas {
		servers = append(servers, gauge.Server{Name: fmt.Sprint(Sara, i), PID: replica.PID, Metrics: replica.AdminURL + "/metrics"})
	}
	return &gauge.Gauge{Servers: servers, Redis: r.counts, Client: r.HTTP}
}

// Unexpected is an error unless all statuses are among those expected.
func Unexpected(result *wire.Result, expected ...int) error {
	odd := result.Requests()
	for _, status := range expected {
		odd -= result.Statuses[status]
	}
	if odd == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %d answers are not what is expected (%v): %v", odd, result.Requests(), expected, result.Statuses)
	for status, example := range result.Examples {
		text += fmt.Sprintf("\n%d, for example: %s", status, example)
	}
	return errors.New(text)
}

func loopOf(load wire.Load) string {
	switch {
	case load.Rate > 0:
		return report.Open
	case load.Requests > 0:
		return report.Once
	}
	return report.Closed
}

// Milliseconds is a time as reports have it.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func latency(r *wire.Result) report.Latency {
	at := func(percent float64) float64 { return Milliseconds(r.Percentile(percent)) }
	return report.Latency{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: Milliseconds(r.Max())}
}

func curve(r *wire.Result) (curve []float64) {
	for _, percent := range report.CurvePercentiles() {
		curve = append(curve, Milliseconds(r.Percentile(percent)))
	}
	return curve
}
