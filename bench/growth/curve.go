package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"sara/bench/internal/report"
	"sara/bench/internal/trial"
	"sara/bench/internal/wire"
)

// A ladder is one thing that grows, step by step, with the curves that are measured on each step.
type ladder struct {
	unit   string
	steps  []int // ascending
	climb  func(w *world, ctx context.Context, to int) error
	curves []curve
}

// A curve is one kind of request.
type curve struct {
	name, about string
	shape       shape
	load        func(w *world, step int) (wire.Load, error)
}

// ladders are all that there are. The package's documentation says more of their curves.
func ladders() []ladder {
	return []ladder{
		{"connections", []int{1, 16, 128, 1024}, (*world).stay, []curve{
			{"connections", "the same 28 days of queries, ready in memory", flat, (*world).hitsOver},
		}},
		{"rows", []int{10, 100, 1000, 10_000, 25_000}, (*world).askRows, []curve{
			{"rows", "ten rows, ready in memory, that came of so many", flat, (*world).rowHits},
			{"cuts", "another order and limit each time, of so many rows in memory", linear, (*world).cuts},
			{"misses", "ten rows of so many that the upstream has to be asked for", linear, (*world).misses},
		}},
		{"months", []int{1, 6, 24, 60}, (*world).archive, []curve{
			{"archive", "28 archived days out of so many months", flat, (*world).storedWeeks},
			{"months", "all of so many archived months", linear, (*world).storedMonths},
		}},
		{"properties", []int{100, 1000, 10_000, 100_000}, (*world).growProperties, []curve{
			{"properties", "two keys of an account with so many properties ask for what is in memory", logarithmic, (*world).hits},
			{"list", "a page of fifty of so many properties, counted", linear, (*world).list},
		}},
		{"accounts", []int{100, 1000, 10_000, 100_000}, (*world).growAccounts, []curve{
			{"accounts", "a hundred of so many accounts ask for what is in memory", logarithmic, (*world).someAccounts},
			{"active", "so many accounts ask in turn for what is in memory", bounded, (*world).allAccounts},
		}},
		{"replicas", []int{1, 2, 4}, (*world).growReplicas, []curve{
			{"replicas", "the same 28 days of queries, ready in the memory of each", flat, (*world).hitsOfReplicas},
		}},
	}
}

// choose leaves only the curves with these names, and no ladder without any.
func choose(names []string) (chosen []ladder, err error) {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	for _, l := range ladders() {
		l.curves = slices.DeleteFunc(l.curves, func(c curve) bool { return !wanted[c.name] })
		if len(l.curves) > 0 {
			chosen = append(chosen, l)
		}
		for _, c := range l.curves {
			delete(wanted, c.name)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("there are no curves %v", slices.Sorted(maps.Keys(wanted)))
	}
	return chosen, nil
}

// climb measures the curves of a ladder on all its steps, and judges their shapes.
func (w *world) climb(ctx context.Context, l ladder, p plan) ([]report.Growth, error) {
	growth := make([]report.Growth, len(l.curves))
	for i, c := range l.curves {
		growth[i] = report.Growth{Name: c.name, About: c.about, Unit: l.unit, Shape: string(c.shape)}
	}
	for _, step := range l.steps[:min(p.steps, len(l.steps))] {
		if err := l.climb(w, ctx, step); err != nil {
			return nil, fmt.Errorf("%d %s: %w", step, l.unit, err)
		}
		for i, c := range l.curves {
			load, err := c.load(w, step)
			if err != nil {
				return nil, err
			}
			point, err := w.point(ctx, load, p)
			if err != nil {
				return nil, fmt.Errorf("%s, %d %s: %w", c.name, step, l.unit, err)
			}
			point.X = float64(step)
			growth[i].Points = append(growth[i].Points, point)
		}
	}
	for i := range growth {
		check(&growth[i])
	}
	return growth, nil
}

// point measures a load in rounds, after one that warms up.
func (w *world) point(ctx context.Context, load wire.Load, p plan) (point report.Point, err error) {
	load.Duration = p.warmUp
	result, err := load.Run(ctx)
	if err != nil {
		return point, err
	}
	if err := trial.Unexpected(result, http.StatusOK); err != nil {
		return point, err
	}
	load.Duration = p.loop
	var cpu, sara, redis, p50, p99, calls []float64
	for range p.rounds {
		m, err := w.Drive(ctx, "", load, http.StatusOK)
		if err != nil {
			return point, err
		}
		s, r := m.Request.CPU[trial.Sara], m.Request.CPU[trial.Redis]
		const finest = 10_000 // microseconds, that processor time is told in
		cpu = append(cpu, max(s+r, finest/float64(m.Requests)))
		sara, redis, calls = append(sara, s), append(redis, r), append(calls, m.Request.Upstream)
		p50, p99 = append(p50, m.Latency.P50), append(p99, m.Latency.P99)
	}
	point.CPU = report.SpreadOf(cpu)
	point.By = map[string]float64{trial.Sara: report.SpreadOf(sara).Median, trial.Redis: report.SpreadOf(redis).Median}
	point.P50, point.P99, point.Calls = report.SpreadOf(p50).Median, report.SpreadOf(p99).Median, report.SpreadOf(calls).Median
	return point, nil
}
