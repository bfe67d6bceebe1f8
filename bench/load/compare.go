package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"sara/bench/internal/gauge"
	"sara/bench/internal/report"
	"sara/bench/internal/wire"
)

// A contender answers one request over and over.
type contender struct {
	name, about string
	address     string
	request     []byte
	gauge       *gauge.Gauge // of the processes that answer
}

// sara is the contender that all others are compared with: a memory hit, with key, plan, scope and the three budgets.
func (w *world) sara(ctx context.Context) (*contender, error) {
	address, err := w.address(roomy)
	if err != nil {
		return nil, err
	}
	c := &contender{name: saraName, address: address, request: w.hitRequests()[0]}
	c.gauge = &gauge.Gauge{Servers: []gauge.Server{{Name: saraName, PID: w.stage.Replicas[0].PID}, {Name: redisName, PID: w.stage.Redis.PID}}}
	return c, w.askOnce(ctx, address, c.request)
}

// floor starts the contender that does nothing but answer, with the bytes of sara's answer.
func (w *world) floor(ctx context.Context, sara *contender) (_ *contender, stop func() error, err error) {
	text, err := ask(ctx, sara.address, sara.request)
	if err != nil {
		return nil, nil, err
	}
	folder, err := os.MkdirTemp("", "sara-load-")
	if err != nil {
		return nil, nil, err
	}
	stop = func() error { return os.RemoveAll(folder) }
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	file := filepath.Join(folder, "answer")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, stop, err
	}
	itself, err := os.Executable()
	if err != nil {
		return nil, stop, err
	}
	c := &contender{name: "the floor", about: "a bare fasthttp handler that sends the same bytes", request: sara.request}
	var pid int
	if c.address, pid, err = w.stage.AddServer(itself, floorCommand, file); err != nil {
		return nil, stop, err
	}
	c.gauge = &gauge.Gauge{Servers: []gauge.Server{{Name: c.name, PID: pid}}}
	return c, stop, nil
}

// compare has both answer in turns.
func compare(ctx context.Context, sara, other *contender, connections int, p plan) (*report.Comparison, error) {
	c := &report.Comparison{With: other.name, About: other.about, Connections: connections}
	for _, one := range []*contender{sara, other} {
		if _, _, err := one.turn(ctx, connections, max(p.warmUp, time.Millisecond)); err != nil {
			return nil, err
		}
	}
	for range p.rounds {
		var r report.Round
		var err error
		if r.Sara, c.Bytes, err = sara.turn(ctx, connections, p.loop); err != nil {
			return nil, err
		}
		if r.Other, _, err = other.turn(ctx, connections, p.loop); err != nil {
			return nil, err
		}
		c.Rounds = append(c.Rounds, r)
	}
	c.Summarize()
	return c, nil
}

// turn measures one contender once, and the bytes of its answers.
func (c *contender) turn(ctx context.Context, connections int, d time.Duration) (t report.Turn, bytes float64, err error) {
	before, err := c.gauge.Before(ctx)
	if err != nil {
		return t, 0, err
	}
	load := wire.Load{Addresses: []string{c.address}, Source: wire.Rotate(c.request), Connections: connections, Duration: d}
	result, err := load.Run(ctx)
	if err != nil {
		return t, 0, fmt.Errorf("%s: %w", c.name, err)
	}
	after, err := c.gauge.After(ctx)
	if err != nil {
		return t, 0, err
	}
	if err := unexpected(result, http.StatusOK); err != nil {
		return t, 0, fmt.Errorf("%s: %w", c.name, err)
	}
	var cpu time.Duration
	for _, p := range c.gauge.Since(before, after).Processes {
		cpu += p.CPU()
	}
	n := float64(result.Requests())
	t = report.Turn{Throughput: result.Throughput(), P50: milliseconds(result.Percentile(50)), P99: milliseconds(result.Percentile(99))}
	t.PerCPU = n / max(cpu, 10*time.Millisecond).Seconds()
	return t, float64(result.Received) / n, nil
}
