package cache

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

func TestRedisOutageCostsOneErrorASecond(t *testing.T) {
	for _, outage := range []struct {
		name       string
		begin, end func(*redistest.Server)
	}{
		{"killed", (*redistest.Server).Kill, (*redistest.Server).Start},
		{"frozen", (*redistest.Server).Freeze, (*redistest.Server).Thaw},
	} {
		t.Run(outage.name, func(t *testing.T) {
			server := redistest.Single(t)
			client, err := redisconn.Open(server.URL(), redisconn.StepTimeout)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			clock := newClock()
			c := newReplicaWithDefaults(t, client, clock)
			var log bytes.Buffer
			c.redis.log = slog.New(slog.NewTextHandler(&log, nil))
			outage.begin(server)
			upstream := answering(rowsOf(t, 3))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for n, site := range []string{"a", "b", "c"} {
				q := upstream.request("p", narrow(site))
				found, err := c.Do(ctx, q)
				if err != nil || found.Status != Filled {
					t.Errorf("found %+v, %v", found, err)
				}
				c.settle()
				if n := c.metric(t, "redis_errors_total", ""); n != 1 {
					t.Errorf("%v Redis errors, want one a second", n)
				}
				upstream.want(t, int64(n+1))
			}
			outage.end(server)
			back := server.Client()
			q := upstream.request("p", narrow("d"))
			// The pause is measured by the test clock, the timeouts in real time: make them long enough for a slow machine.
			c.redis.seeks.runners.Wait() // of a call that was given up
			c.redis.limits = limitsFor(10 * time.Second)
			c.redis.client = back
			clock.advance(time.Second)
			c.do(t, q, Filled)
			c.settle()
			newReplica(t, back, clock).do(t, q, HitShared)
			if lines := bytes.Count(log.Bytes(), []byte("\n")); lines != 2 {
				t.Errorf("logged %q, want one line for the outage and one for its end", &log)
			}
		})
	}
}

// A Redis whose memory is full refuses leases and rows, but still has those that fit: that is not an outage.
func TestFullRedisIsNotPaused(t *testing.T) {
	server := redistest.Single(t, "--maxmemory-policy", "noeviction")
	client, clock := server.Client(), newClock()
	c, upstream := newReplica(t, client, clock), answering(rowsOf(t, 3))
	c.do(t, upstream.request("p", narrow("before")), Filled)
	c.settle()
	limit := func(bytes string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	limit("1")
	c.do(t, upstream.request("p", narrow("full")), Filled)
	c.settle()
	if c.redis.breaker.Failure() != nil {
		t.Error("Redis is paused")
	}
	newReplica(t, client, clock).do(t, upstream.request("p", narrow("before")), HitShared)
	limit("0")
	if err := c.redis.rows.Relieve(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.do(t, upstream.request("p", narrow("after")), Filled)
	c.settle()
	newReplica(t, client, clock).do(t, upstream.request("p", narrow("after")), HitShared)
}

// While a slot of a cluster moves, only its keys are refused: a pause would be a second without the rows of all other slots.
func TestMovingSlotDoesNotPauseRedis(t *testing.T) {
	client := redistest.Single(t).Client()
	c := newReplica(t, client, newClock())
	var refusal error
	c.redis.try(t.Context(), time.Minute, func(ctx context.Context) error {
		refusal = client.Eval(ctx, "return redis.error_reply('TRYAGAIN Multiple keys request during rehashing of slot')", nil).Err()
		return refusal
	})
	if c.redis.breaker.Failure() != nil || c.metric(t, "redis_errors_total", "") != 1 {
		t.Errorf("Redis is paused after %v, or it was not counted", refusal)
	}
}

func TestCanceledStepDoesNotPauseRedis(t *testing.T) {
	c := newReplica(t, redistest.Single(t).Client(), newClock())
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	upstream := answering(rowsOf(t, 3))
	if c.Has(canceled, upstream.request("p", narrow("a"))) {
		t.Error("Has is true before any fill")
	}
	if n := c.metric(t, "redis_errors_total", ""); n != 0 {
		t.Errorf("counted %v Redis errors", n)
	}
	if c.redis.breaker.Failure() != nil {
		t.Error("Redis is paused")
	}
}

func TestOneStepProbesRedisAfterAPause(t *testing.T) {
	clock := newClock()
	c := newReplica(t, redistest.Single(t).Client(), clock)
	trouble := errors.New("trouble")
	steps := 0
	step := func(err error) {
		c.redis.try(t.Context(), time.Minute, func(context.Context) error {
			steps++
			return err
		})
	}
	step(trouble)
	clock.advance(time.Second - 1)
	if step(nil); steps != 1 {
		t.Error("Redis was used again within a second")
	}
	clock.advance(1)
	c.redis.try(t.Context(), time.Minute, func(context.Context) error {
		if step(nil); steps != 1 {
			t.Error("a second step ran during the probe")
		}
		return trouble
	})
	clock.advance(time.Second)
	step(redis.Nil)
	if step(nil); steps != 3 {
		t.Error("Redis is not used after a successful probe")
	}
	step(trouble)
	clock.advance(-time.Hour)
	if step(nil); steps != 5 {
		t.Error("Redis is not used after the clock was set back")
	}
}
