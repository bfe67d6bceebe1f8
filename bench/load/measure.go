package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sara/bench/internal/gauge"
	"sara/bench/internal/report"
	"sara/bench/internal/wire"
)

// The names of processes in a report.
const (
	saraName   = "sara"
	redisName  = "redis"
	clientName = "client"
)

// inScripts are the Redis commands that only sara's scripts call, as far as a server counts them here.
func inScripts() []string { return []string{"time", "hmget", "hset", "hgetall", "hdel", "expire"} }

// drive measures one loop of a scenario.
func (w *world) drive(ctx context.Context, s scenario, load wire.Load) (*report.Measurement, error) {
	g := w.gauge()
	if err := g.Calibrate(ctx); err != nil {
		return nil, err
	}
	before, err := g.Before(ctx)
	if err != nil {
		return nil, err
	}
	calls := w.stage.Simulator.Calls().SearchAnalytics
	result, err := load.Run(ctx)
	if err != nil {
		return nil, err
	}
	after, err := g.After(ctx)
	if err != nil {
		return nil, err
	}
	if err := unexpected(result, s.statuses...); err != nil {
		return nil, err
	}
	m := &report.Measurement{
		Scenario: s.name, Loop: loopOf(load), Connections: load.Connections, Rate: load.Rate, Requests: result.Requests(),
		Statuses: result.Statuses, Cache: result.Cache, Took: report.Seconds(result.Elapsed.Seconds()), Throughput: result.Throughput(),
		Latency: latency(result), Curve: curve(result), Resident: resident(after),
	}
	m.Request = cost(result, g.Since(before, after), w.stage.Simulator.Calls().SearchAnalytics-calls)
	return m, nil
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

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func latency(r *wire.Result) report.Latency {
	at := func(percent float64) float64 { return milliseconds(r.Percentile(percent)) }
	return report.Latency{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: milliseconds(r.Max())}
}

func curve(r *wire.Result) (curve []float64) {
	for _, percent := range report.CurvePercentiles() {
		curve = append(curve, milliseconds(r.Percentile(percent)))
	}
	return curve
}

// process is the name that a server's figures go under: all replicas are sara.
func process(server string) string {
	if strings.HasPrefix(server, saraName) {
		return saraName
	}
	return server
}

func resident(r *gauge.Reading) map[string]int64 {
	bytes := map[string]int64{}
	for name, p := range r.Processes {
		bytes[process(name)] += p.Resident
	}
	return bytes
}

// cost divides what was used by the requests.
func cost(result *wire.Result, used gauge.Used, calls int64) report.Cost {
	n := float64(max(1, result.Requests()))
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / n }
	c := report.Cost{
		CPU: map[string]float64{}, RedisCalls: float64(used.Redis.Calls(inScripts()...)) / n, RedisReads: float64(used.Redis.Reads) / n,
		Upstream: float64(calls) / n, Bytes: float64(result.Received) / n,
	}
	for name, p := range used.Processes {
		c.CPU[process(name)] += micros(p.CPU())
	}
	var inCommands time.Duration
	for _, name := range inScripts() { // their time is in their scripts', too
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

// A plan says how long and how hard to measure.
type plan struct {
	connections []int
	shares      []float64 // of the most throughput, that open loops ask at
	warmUp      time.Duration
	loop        time.Duration
	rounds      int    // of a comparison
	profiles    string // folder for CPU profiles; empty for none
}

// measure runs the loops of a scenario: closed ones, and open ones at shares of the best of those.
func (w *world) measure(ctx context.Context, s scenario, p plan, note func(*report.Measurement)) error {
	address, err := w.address(s.replica)
	if err != nil {
		return err
	}
	if s.prepare != nil {
		if err := s.prepare(w, ctx, address); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	load := wire.Load{Addresses: []string{address}, Source: s.source(w), Connections: p.connections[0]}
	if s.once {
		first := load
		first.Requests = int64(w.trace.Requests)
		m, err := w.drive(ctx, s, first)
		if err != nil {
			return err
		}
		note(m)
	}
	best, err := w.closed(ctx, s, p, load, note)
	if err != nil {
		return err
	}
	load.Connections, load.Duration = p.connections[len(p.connections)-1], p.loop
	if p.profiles != "" {
		if err := w.profile(ctx, s, load, p.profiles); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
	}
	for _, share := range p.shares {
		load.Rate = best * share
		m, err := w.drive(ctx, s, load)
		if err != nil {
			return fmt.Errorf("%.0f requests a second: %w", load.Rate, err)
		}
		note(m)
	}
	return nil
}

// closed runs the closed loops, and returns the best throughput.
func (w *world) closed(ctx context.Context, s scenario, p plan, load wire.Load, note func(*report.Measurement)) (best float64, err error) {
	for _, load.Connections = range p.connections {
		if load.Duration = p.warmUp; p.warmUp > 0 {
			result, err := load.Run(ctx)
			if err != nil {
				return 0, err
			}
			if err := unexpected(result, s.statuses...); err != nil {
				return 0, err
			}
		}
		load.Duration = p.loop
		m, err := w.drive(ctx, s, load)
		if err != nil {
			return 0, fmt.Errorf("%d connections: %w", load.Connections, err)
		}
		note(m)
		best = max(best, m.Throughput)
	}
	return best, nil
}
