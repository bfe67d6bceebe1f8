package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/measure"
	"sara/bench/internal/report"
)

// A ladder is one quantity that grows in steps, with the curves that are measured at each step.
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
	load        func(w *world, step int) (loadgen.Load, error)
}

// ladders returns all ladders; the package doc describes their curves.
func ladders() []ladder {
	return []ladder{
		{"connections", []int{1, 16, 128, 512}, (*world).stay, []curve{
			{"connections", "the same 28 days of queries, in memory", flat, (*world).hitsOver},
		}},
		{"rows", []int{10, 100, 1000, 10_000, 25_000}, (*world).askRows, []curve{
			{"rows", "ten rows, ready in memory, cut from this many", flat, (*world).rowHits},
			{"cuts", "a new order or limit each time, from this many rows in memory", linear, (*world).cuts},
			{"misses", "ten of this many rows, from the upstream", linear, (*world).misses},
		}},
		{"months", []int{1, 6, 24, 60}, (*world).archive, []curve{
			{"archive", "28 archived days, with this many months archived", flat, (*world).storedWeeks},
			{"months", "all of this many archived months", linear, (*world).storedMonths},
		}},
		{"properties", []int{100, 1000, 10_000, 100_000}, (*world).growProperties, []curve{
			{"properties", "memory hits by two keys of an account with this many properties", logarithmic, (*world).hits},
			{"list", "a page of fifty properties, with the total of this many", linear, (*world).list},
		}},
		{"accounts", []int{100, 1000, 10_000, 100_000, 1_000_000}, (*world).growAccounts, []curve{
			{"accounts", "memory hits by a hundred of this many accounts", logarithmic, (*world).someAccounts},
			{"active", "memory hits by this many accounts in turn", bounded, (*world).allAccounts},
		}},
		{"replicas", []int{1, 2, 4}, (*world).growReplicas, []curve{
			{"replicas", "the same 28 days of queries, in the memory of each replica", flat, (*world).hitsOfReplicas},
		}},
	}
}

// choose returns the ladders with the curves of these names.
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

// climb measures the curves of a ladder at each step, and checks their shapes.
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

// point measures a load in rounds, after a warm-up.
func (w *world) point(ctx context.Context, load loadgen.Load, p plan) (point report.Point, err error) {
	load.Duration = p.warmUp
	result, err := load.Run(ctx)
	if err != nil {
		return point, err
	}
	if err := result.Unexpected(http.StatusOK); err != nil {
		return point, err
	}
	load.Duration = p.loop
	var cpu, sara, redis, p50, p99, calls []float64
	for range p.rounds {
		m, err := w.Loop(ctx, "", load, http.StatusOK)
		if err != nil {
			return point, err
		}
		s, r := m.Request.CPU[measure.Sara], m.Request.CPU[measure.Redis]
		const resolution = 10_000 // of processor times, in microseconds
		cpu = append(cpu, max(s+r, resolution/float64(m.Requests)))
		sara, redis, calls = append(sara, s), append(redis, r), append(calls, m.Request.Upstream)
		p50, p99 = append(p50, m.Latency.P50), append(p99, m.Latency.P99)
	}
	point.CPU = report.SpreadOf(cpu)
	point.By = map[string]float64{measure.Sara: report.SpreadOf(sara).Median, measure.Redis: report.SpreadOf(redis).Median}
	point.P50, point.P99, point.Calls = report.SpreadOf(p50).Median, report.SpreadOf(p99).Median, report.SpreadOf(calls).Median
	return point, nil
}
