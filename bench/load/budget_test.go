package main

import (
	"slices"
	"testing"

	"sara/bench/internal/gauge"
	"sara/bench/internal/report"
	"sara/bench/internal/wire"
	"sara/bench/trace"
)

// What a request may cost, in counts that a busy machine does not change: a change that needs more is noticed here. Those
// of allocations are what was measured and a tenth.
const (
	allocations      = 13 // of a memory hit, the library's with them, but for
	allocationsBatch = 26 // its share of a batch of admissions, which is one call of Redis

	callsBusy    = 0.5     // calls of Redis for a memory hit among 128: less than half of them make a batch of their own
	background   = 0.02    // for each request, calls that no request makes: health checks and the like
	instructions = 250_000 // outside the kernel; an estimate from the processor time, twice of it
)

// smallest is the trace of one person with one property.
func smallest() trace.Config {
	return trace.Config{Seed: 1, Requests: 1, Accounts: 1, People: 1, Properties: 1}
}

// budgeted is a world with one property, and one question asked of it.
func budgeted(t *testing.T) (w *world, memory scenario) {
	needRedis(t)
	w, err := newWorld(t.Context(), smallest())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w, named(t, "memory")
}

func named(t *testing.T, name string) scenario {
	t.Helper()
	i := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("there is no scenario %s", name)
	}
	return scenarios()[i]
}

// count measures so many requests of a scenario over so many connections.
func (w *world) count(t *testing.T, s scenario, requests int64, connections int) *report.Measurement {
	t.Helper()
	address, err := w.address(s.replica)
	if err != nil {
		t.Fatal(err)
	}
	m, err := w.drive(t.Context(), s, wire.Load{Addresses: []string{address}, Source: s.source(w), Connections: connections, Requests: requests})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestBudgetOfARequest(t *testing.T) {
	w, memory := budgeted(t)
	// The first hundred and twenty-eight ask at the same time what nobody has asked before.
	cold := w.count(t, memory, 128, 128)
	if calls := cold.Request.Upstream * 128; calls != 1 {
		t.Errorf("128 requests for what nobody has took %g upstream calls", calls)
	}
	w.count(t, memory, 2000, 128) // pools and connections are made

	t.Run("a memory hit alone", func(t *testing.T) {
		m := w.count(t, memory, 4000, 1)
		if c := m.Request; c.Upstream != 0 || c.RedisCalls < 1 || c.RedisCalls > 1+background || c.RedisReads < 1 || c.RedisReads > 1+background {
			t.Errorf("%g upstream calls, %g commands of Redis in %g round trips, want none and 1 in 1", c.Upstream, c.RedisCalls, c.RedisReads)
		}
		checkAllocations(t, m.Request)
	})
	t.Run("memory hits over 128 connections", func(t *testing.T) {
		m := w.count(t, memory, 20_000, 128)
		if c := m.Request; c.Upstream != 0 || c.RedisCalls > callsBusy || c.RedisReads > callsBusy {
			t.Errorf("%g upstream calls, %g commands of Redis in %g round trips, want none and at most %g", c.Upstream, c.RedisCalls, c.RedisReads, callsBusy)
		}
		checkAllocations(t, m.Request)
	})
	t.Run("instructions of a memory hit", func(t *testing.T) {
		counter, err := gauge.CountInstructions(w.Stage.Replicas[0].PID)
		if err != nil {
			t.Skip(err)
		}
		defer func() { _ = counter.Close() }()
		const hits = 10_000
		w.count(t, memory, hits, 128)
		if n, err := counter.Value(); err != nil || n/hits > instructions {
			t.Errorf("%d instructions for a hit (%v), want at most %d", n/hits, err, instructions)
		}
	})
	t.Run("a Redis hit on another replica", func(t *testing.T) {
		shared := named(t, "redis")
		if err := shared.prepare(w, t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if _, err := w.address(forgetful); err != nil {
			t.Fatal(err)
		}
		m := w.count(t, shared, sharedQuestions, 1) // every question once
		// The replica has just started: it loads its script and hears of nothing yet.
		if c := m.Request; c.Upstream != 0 || c.RedisReads > 2.5 || m.Cache["hit"] != sharedQuestions {
			t.Errorf("%g upstream calls, %g round trips; X-Cache %v", c.Upstream, c.RedisReads, m.Cache)
		}
		m = w.count(t, shared, 2*sharedQuestions, 1)
		if c := m.Request; c.Upstream != 0 || c.RedisReads > 2+background || c.RedisCalls > 3+background {
			t.Errorf("%g upstream calls, %g commands of Redis in %g round trips, want none and at most 3 in 2", c.Upstream, c.RedisCalls, c.RedisReads)
		}
	})
}

func checkAllocations(t *testing.T, c report.Cost) {
	t.Helper()
	if most := allocations + allocationsBatch*c.RedisCalls; c.Objects > most {
		t.Errorf("%.1f allocations with %g of a batch, want at most %.1f", c.Objects, c.RedisCalls, most)
	}
}
