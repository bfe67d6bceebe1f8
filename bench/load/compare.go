package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/measure"
	"sara/bench/internal/procstat"
	"sara/bench/internal/report"
)

// compare measures sara and all other contenders in turns, over several rounds. Each round starts with a different contender, and
// every other round is reversed, so that no contender always follows the same one.
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
	}
	return comparisons, nil
}

// turn measures one contender once.
func (c *contender) turn(ctx context.Context, connections int, d time.Duration) (t report.Turn, err error) {
	reader := procstat.Reader{Servers: c.servers}
	before, err := reader.Before(ctx)
	if err != nil {
		return t, fmt.Errorf("%s: %w", c.name, err)
	}
	load := loadgen.Load{Addresses: []string{c.address}, Source: loadgen.Rotate(c.request), Connections: connections, Duration: d}
	result, err := load.Run(ctx)
	if err != nil {
		return t, fmt.Errorf("%s: %w", c.name, err)
	}
	after, err := reader.After(ctx)
	if err != nil {
		return t, fmt.Errorf("%s: %w", c.name, err)
	}
	if err := result.Unexpected(http.StatusOK); err != nil {
		return t, fmt.Errorf("%s: %w", c.name, err)
	}
	var cpu time.Duration
	for _, p := range reader.Since(before, after).Processes {
		cpu += p.CPU()
	}
	const resolution = 10 * time.Millisecond // of processor times
	n := float64(result.Requests())
	t = report.Turn{Throughput: result.Throughput(), P50: measure.Milliseconds(result.Percentile(50)), P99: measure.Milliseconds(result.Percentile(99))}
	t.PerCPU = n / max(cpu, resolution).Seconds()
	return t, nil
}
