package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sara/bench/internal/testbed"
	"sara/policy/redisconn"
)

// oneRedis has rows and counters in one small Redis that evicts nothing.
func oneRedis(w *world) ([]string, error) {
	r, err := w.AddRedis("--maxmemory", w.redisMemory, "--maxmemory-policy", "noeviction")
	if err != nil {
		return nil, err
	}
	w.small = []*testbed.Redis{r}
	return []string{"SARA_REDIS_URL=redis://" + r.Address}, nil
}

// twoRedises has the rows in a small Redis that evicts the oldest, and the counters in another that evicts nothing.
func twoRedises(w *world) ([]string, error) {
	env, err := oneRedis(w)
	if err != nil {
		return nil, err
	}
	ofRows, err := w.AddRedis("--maxmemory", w.redisMemory, "--maxmemory-policy", "allkeys-lru")
	if err != nil {
		return nil, err
	}
	w.small = append(w.small, ofRows)
	return append(env, "SARA_REDIS_CACHE_URL=redis://"+ofRows.Address), nil
}

// rows uses up an account's day, floods Redis with another account's rows, and then tries the used-up day again.
func rows(ctx context.Context, s *stage) error {
	const connections = 8
	counted := s.counted[0] // sara stores its usage, so it serves for one trial
	s.counted = s.counted[1:]
	day := func() *tally {
		c := &stage{world: s.world, replica: s.replica, tally: newTally()}
		c.sendAll(ctx, connections, hundredADay+hundredADay/2, func(int) *fasthttp.Request { return get("/v1/me", s.Keys[counted][0]) })
		return c.tally
	}
	watched, stop := s.watchDegraded(ctx)
	first := day()
	if err := flood(ctx, s); err != nil {
		return err
	}
	pause(ctx, time.Second)
	for i, r := range s.small {
		memory, err := redisMemory(ctx, r)
		if err != nil {
			return err
		}
		s.note("Redis %d: %s", i+1, memory)
	}
	again := day()
	stop()
	degraded := <-watched
	if degraded > 0 && s.timed {
		s.problem("budgets were counted locally in %d readings", degraded)
	}
	admitted := first.count("200") + again.count("200")
	s.note("%d of %d admitted", admitted, hundredADay)
	if admitted != hundredADay && (s.timed || degraded == 0) { // a slow machine's Redis may seem down
		s.problem("a day of %d admitted %d: first %v, after the flood %v", hundredADay, admitted, first, again)
	}
	return nil
}

// flood asks for many different rows.
func flood(ctx context.Context, s *stage) error {
	const connections = 4 // few enough that the account's fills do not queue for long
	s.sendAll(ctx, connections, s.rowFloods, func(int) *fasthttp.Request {
		return get(s.property(s.flooder, 0)+"/pages?limit=1000&order_by=-impressions&"+s.days(), s.Keys[s.flooder][0])
	})
	return nil
}

// fillCache has the tenants ask for rows until sara's memory cache is nearly full.
func (s *stage) fillCache(ctx context.Context) error {
	const batch, full = 16, 0.95
	quiet := &stage{world: s.world, replica: s.replica, tally: newTally()}
	for sent := 0; sent < s.cacheFloods; sent += batch {
		quiet.sendAll(ctx, 2, batch, func(n int) *fasthttp.Request {
			account := s.tenants[n%len(s.tenants)]
			return get(s.property(account, 1)+"/pages?limit=1000&order_by=-impressions&"+s.days(), s.Keys[account][0])
		})
		metrics, err := s.metrics(ctx, s.replica)
		if err != nil {
			return err
		}
		if metrics["sara_cache_memory_bytes"] > full*cacheBytes {
			break
		}
	}
	if quiet.tally.count("200") == 0 {
		return fmt.Errorf("fill the cache: %v", quiet.tally)
	}
	return nil
}

// watchDegraded reads a replica's metrics until stop is called, and then sends how often budgets were counted locally.
func (s *stage) watchDegraded(ctx context.Context) (degraded <-chan int, stop func()) {
	ctx, stop = context.WithCancel(ctx)
	counted := make(chan int, 1)
	go func() {
		const interval = 100 * time.Millisecond
		n := 0
		defer func() { counted <- n }()
		every(ctx, interval, time.Hour, func(int) {
			if metrics, err := s.metrics(ctx, s.replica); err == nil && metrics["sara_budget_degraded"] > 0 {
				n++
			}
		})
	}()
	return counted, stop
}

// openRedis returns a client that waits as long as a busy machine needs.
func openRedis(r *testbed.Redis) (redisconn.Client, error) {
	return redisconn.Open("redis://"+r.Address, 5*time.Second)
}

// redisMemory describes the memory and the evictions of a Redis.
func redisMemory(ctx context.Context, r *testbed.Redis) (string, error) {
	client, err := openRedis(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	text, err := client.Info(ctx, "memory", "stats").Result()
	if err != nil {
		return "", err
	}
	var parts []string
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_memory_human" || name == "evicted_keys" {
			parts = append(parts, fmt.Sprintf("%s %s", name, value))
		}
	}
	return strings.Join(parts, ", "), nil
}
