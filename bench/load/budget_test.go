package main

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/report"
	"sara/bench/trace"
	"sara/cmd/sara/saratest"
)

// Upper bounds for the cost of a request, in counts that do not depend on the machine.
const (
	// Allocations of a memory hit and of a denial: none and two, plus half of one for background work during a short loop.
	allocations       = 0.5
	allocationsDenial = 2.5
	allocationsBatch  = 28 // of a batch of admissions, which is one Redis command: the measured value plus a tenth

	callsBusy = 0.1 // Redis commands for a memory hit at 128 connections: nearly all hits come from leases
	// Redis commands that are not caused by requests, such as health checks and snapshots: per request and, in a slow loop of few
	// requests, per second for all replicas together.
	background = 0.02
	aSecond    = 12
)

// rounds is how many rounds may miss the bounds that a busy machine affects before a test fails: sara's work per second weighs more on each
// request the longer a loop takes, and a replica works without Redis for a second when it does not answer in time. A higher cost of each
// request shows in all rounds. Upstream calls for cached data, and more Redis commands than a bound, fail in any round.
const rounds = 4

// smallest is the trace of one person with one property.
func smallest() trace.Config {
	return trace.Config{Seed: 1, Requests: 1, Accounts: 1, People: 1, Properties: 1}
}

// budgeted starts a world with one property.
func budgeted(t *testing.T) (w *world, memory scenario) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs sara")
	}
	needRedis(t)
	t.Setenv("GOGC", "off") // for sara: a collection empties pools, and refilling them allocates up to two objects per request
	w, err := newWorld(t.Context(), saratest.Binary(t), smallest())
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

// count measures a number of requests of a scenario over a number of connections.
func (w *world) count(t *testing.T, s scenario, requests int64, connections int) *report.Measurement {
	t.Helper()
	address, err := w.address(s.replica)
	if err != nil {
		t.Fatal(err)
	}
	m, err := w.drive(t.Context(), s, loadgen.Load{Addresses: []string{address}, Source: s.source(w), Connections: connections, Requests: requests})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestBudgetOfARequest(t *testing.T) {
	w, memory := budgeted(t)
	// The first 128 requests are equal, arrive at once, and miss every cache.
	cold := w.count(t, memory, 128, 128)
	if calls := cold.Request.Upstream * 128; calls != 1 {
		t.Errorf("128 equal requests caused %g upstream calls, want 1", calls)
	}
	w.count(t, memory, 2000, 128) // fills pools and opens connections

	t.Run("a memory hit alone", func(t *testing.T) {
		holds(t, func() error {
			c := w.count(t, memory, 4000, 1).Request
			if c.Upstream != 0 || c.RedisCalls > 1+background || c.RedisReads > 1+background {
				t.Errorf("%g upstream calls, %g Redis commands in %g round trips, want none and 1 in 1", c.Upstream, c.RedisCalls, c.RedisReads)
			}
			if c.RedisCalls < 1 || c.RedisReads < 1 {
				return fmt.Errorf("%g Redis commands in %g round trips, want 1 in 1", c.RedisCalls, c.RedisReads)
			}
			return allocates(c, allocations+allocationsBatch*c.RedisCalls)
		})
	})
	t.Run("memory hits over 128 connections", func(t *testing.T) {
		holds(t, func() error {
			c := w.count(t, memory, 20_000, 128).Request
			if c.Upstream != 0 || c.RedisCalls > callsBusy || c.RedisReads > callsBusy {
				t.Errorf("%g upstream calls, %g Redis commands in %g round trips, want none and at most %g", c.Upstream, c.RedisCalls, c.RedisReads, callsBusy)
			}
			return allocates(c, allocations+allocationsBatch*c.RedisCalls)
		})
	})
	t.Run("denials over 128 connections", func(t *testing.T) {
		denials := named(t, "denials")
		w.count(t, denials, 3, 1) // a miss, and hits, which are memoized
		w.count(t, denials, 2000, 128)
		holds(t, func() error {
			c := w.count(t, denials, 20_000, 128).Request
			if c.Upstream != 0 || c.RedisCalls > background {
				t.Errorf("%g upstream calls, %g Redis commands, want none", c.Upstream, c.RedisCalls)
			}
			return allocates(c, allocationsDenial)
		})
	})
	t.Run("a Redis hit on another replica", func(t *testing.T) {
		shared := named(t, "redis")
		if err := shared.prepare(w, t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		holds(t, func() error {
			w.replicas[shared.replica] = 0 // the next count starts one
			return w.hitsRedis(t, shared)
		})
	})
}

// holds checks what must hold in one of several rounds.
func holds(t *testing.T, round func() error) {
	t.Helper()
	var failed error
	for range rounds {
		err := round()
		if err == nil {
			return
		}
		failed = errors.Join(failed, err)
	}
	t.Errorf("%d rounds failed:\n%v", rounds, failed)
}

func allocates(c report.Cost, most float64) error {
	if c.Objects > most {
		return fmt.Errorf("%.2f allocations, at %.4f batches a request, want at most %.2f", c.Objects, c.RedisCalls, most)
	}
	return nil
}

// hitsRedis has a new replica answer from Redis, and returns an error if an answer did not come from there or cost too much.
func (w *world) hitsRedis(t *testing.T, shared scenario) error {
	t.Helper()
	m := w.count(t, shared, sharedTables, 1) // each table once
	// The replica has just started: it loads its script, and has no subscriptions yet.
	if c := m.Request; c.Upstream != 0 || c.RedisReads > 2.5 || m.Cache["hit"] != sharedTables {
		return fmt.Errorf("%g upstream calls, %g round trips; X-Cache %v", c.Upstream, c.RedisReads, m.Cache)
	}
	m = w.count(t, shared, 2*sharedTables, 1)
	// The admission; and the copies of the answer's rows and of the property's daily series.
	most := 2 + max(background, aSecond*float64(m.Took)/(2*sharedTables))
	const least = 2 - 0.1 // for the tables in memory
	if c := m.Request; c.Upstream != 0 || c.RedisReads > most || c.RedisCalls > most || c.RedisCalls < least {
		return fmt.Errorf("%g upstream calls, %g Redis commands in %g round trips, want none and 2 in 2", c.Upstream, c.RedisCalls, c.RedisReads)
	}
	return nil
}
