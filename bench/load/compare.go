package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"sara/bench/internal/gauge"
	"sara/bench/internal/report"
	"sara/bench/internal/trial"
	"sara/bench/internal/wire"
)

// compare has sara and all others answer in turns, in so many rounds, and holds sara against each of them.
func (a *arena) compare(ctx context.Context, connections int, p plan) ([]report.Comparison, error) {
	for _, c := range slices.Concat(a.others, []*contender{a.sara}) {
		if _, _, err := c.turn(ctx, connections, max(p.warmUp, time.Millisecond)); err != nil {
			return nil, err
		}
	}
	comparisons := make([]report.Comparison, len(a.others))
	for range p.rounds {
		ours, bytes, err := a.sara.turn(ctx, connections, p.loop)
		if err != nil {
			return nil, err
		}
		for i, other := range a.others {
			theirs, _, err := other.turn(ctx, connections, p.loop)
			if err != nil {
				return nil, err
			}
			comparisons[i].Bytes = bytes
			comparisons[i].Rounds = append(comparisons[i].Rounds, report.Round{Sara: ours, Other: theirs})
		}
	}
	for i, other := range a.others {
		c := &comparisons[i]
		c.With, c.About, c.Connections = other.name, other.about, connections
		c.Summarize()
	}
	return comparisons, nil
}

// turn measures one contender once, and the bytes of its answers.
func (c *contender) turn(ctx context.Context, connections int, d time.Duration) (t report.Turn, bytes float64, err error) {
	g := gauge.Gauge{Servers: c.servers}
	before, err := g.Before(ctx)
	if err != nil {
		return t, 0, fmt.Errorf("%s: %w", c.name, err)
	}
	load := wire.Load{Addresses: []string{c.address}, Source: wire.Rotate(c.request), Connections: connections, Duration: d}
	result, err := load.Run(ctx)
	if err != nil {
		return t, 0, fmt.Errorf("%s: %w", c.name, err)
	}
	after, err := g.After(ctx)
	if err != nil {
		return t, 0, fmt.Errorf("%s: %w", c.name, err)
	}
	if err := trial.Unexpected(result, http.StatusOK); err != nil {
		return t, 0, fmt.Errorf("%s: %w", c.name, err)
	}
	var cpu time.Duration
	for _, p := range g.Since(before, after).Processes {
		cpu += p.CPU()
	}
	const finest = 10 * time.Millisecond // that the processor time is told in
	n := float64(result.Requests())
	t = report.Turn{Throughput: result.Throughput(), P50: trial.Milliseconds(result.Percentile(50)), P99: trial.Milliseconds(result.Percentile(99))}
	t.PerCPU = n / max(cpu, finest).Seconds()
	return t, float64(result.Received) / n, nil
}
