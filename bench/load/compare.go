package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"sara/bench/internal/gauge"
	"sara/bench/internal/report"
	"sara/bench/internal/trial"
	"sara/bench/internal/wire"
)

// compare has sara and all others answer in turns, in so many rounds, and holds sara against each of them. A round begins
// where the one before did not, and every other one goes backwards, so that none has the same one before it each time.
func (a *arena) compare(ctx context.Context, connections int, p plan) ([]report.Comparison, error) {
	all := append([]*contender{a.sara}, a.others...)
	for _, c := range all {
		if _, err := c.turn(ctx, connections, max(p.warmUp, time.Millisecond)); err != nil {
			return nil, err
		}
	}
	comparisons := make([]report.Comparison, len(a.others))
	for round := range p.rounds {
		turns := make([]report.Turn, len(all))
		for i := range all {
			which := (round + i) % len(all)
			if round%2 == 1 {
				which = len(all) - 1 - which
			}
			var err error
			if turns[which], err = all[which].turn(ctx, connections, p.loop/2); err != nil {
				return nil, err
			}
		}
		for i := range comparisons {
			comparisons[i].Rounds = append(comparisons[i].Rounds, report.Round{Sara: turns[0], Other: turns[i+1]})
		}
	}
	for i, other := range a.others {
		c := &comparisons[i]
		c.With, c.About, c.Connections, c.Bytes = other.name, other.about, connections, float64(len(a.answer))
		c.Summarize()
	}
	return comparisons, nil
}

// turn measures one contender once.
func (c *contender) turn(ctx context.Context, connections int, d time.Duration) (t report.Turn, err error) {
	g := gauge.Gauge{Servers: c.servers}
	before, err := g.Before(ctx)
	if err != nil {
		return t, fmt.Errorf("%s: %w", c.name, err)
	}
	load := wire.Load{Addresses: []string{c.address}, Source: wire.Rotate(c.request), Connections: connections, Duration: d}
	result, err := load.Run(ctx)
	if err != nil {
		return t, fmt.Errorf("%s: %w", c.name, err)
	}
	after, err := g.After(ctx)
	if err != nil {
		return t, fmt.Errorf("%s: %w", c.name, err)
	}
	if err := trial.Unexpected(result, http.StatusOK); err != nil {
		return t, fmt.Errorf("%s: %w", c.name, err)
	}
	var cpu time.Duration
	for _, p := range g.Since(before, after).Processes {
		cpu += p.CPU()
	}
	const finest = 10 * time.Millisecond // that the processor time is told in
	n := float64(result.Requests())
	t = report.Turn{Throughput: result.Throughput(), P50: trial.Milliseconds(result.Percentile(50)), P99: trial.Milliseconds(result.Percentile(99))}
	t.PerCPU = n / max(cpu, finest).Seconds()
	return t, nil
}
