package main

import (
	"context"
	"fmt"
	"time"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/report"
)

// drive measures one loop of a scenario.
func (w *world) drive(ctx context.Context, s scenario, load loadgen.Load) (*report.Measurement, error) {
	m, err := w.Loop(ctx, s.name, load, s.statuses...)
	if err != nil {
		return nil, err
	}
	m.Mix = s.mix
	return m, nil
}

// A plan sets the duration and the load of the measurements.
type plan struct {
	connections []int
	shares      []float64 // rates of the open loops, as fractions of the highest throughput
	warmUp      time.Duration
	loop        time.Duration
	rounds      int // of the comparison
}

// measure runs the loops of a scenario: closed loops first, then open loops at fractions of the highest throughput.
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
	if s.connections > 0 {
		p.connections, p.shares = []int{s.connections}, nil
	}
	load := loadgen.Load{Addresses: []string{address}, Source: s.source(w), Connections: p.connections[0]}
	if s.once != nil {
		first := load
		first.Requests = int64(s.once(w))
		m, err := w.drive(ctx, s, first)
		if err != nil {
			return err
		}
		note(m)
	}
	if s.only {
		return nil
	}
	best, err := w.closed(ctx, s, p, load, note)
	if err != nil {
		return err
	}
	load.Connections, load.Duration = p.connections[len(p.connections)-1], p.loop
	for _, share := range p.shares {
		load.Rate = best * share
		m, err := w.drive(ctx, s, load)
		if err != nil {
			return fmt.Errorf("%.0f requests a second: %w", load.Rate, err)
		}
		m.Share = share
		note(m)
	}
	return nil
}

// closed runs the closed loops, and returns the highest throughput.
func (w *world) closed(ctx context.Context, s scenario, p plan, load loadgen.Load, note func(*report.Measurement)) (best float64, err error) {
	for _, load.Connections = range p.connections {
		if load.Duration = p.warmUp; p.warmUp > 0 {
			result, err := load.Run(ctx)
			if err != nil {
				return 0, err
			}
			if err := result.Unexpected(s.statuses...); err != nil {
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
