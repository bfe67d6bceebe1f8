package cache

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy"
	"sara/policy/redistest"
)

func TestWithoutRedisAnswersAreFills(t *testing.T) {
	for _, outage := range []struct {
		name       string
		begin, end func(*redistest.Server)
	}{
		{"killed", (*redistest.Server).Kill, (*redistest.Server).Start},
		{"frozen", (*redistest.Server).Freeze, (*redistest.Server).Thaw},
	} {
		t.Run(outage.name, func(t *testing.T) {
			server := redistest.Single(t)
			client, err := policy.OpenRedis(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			clock := newClock()
			c := newImpatient(t, client, clock)
			var log bytes.Buffer
			c.redis.log = slog.New(slog.NewTextHandler(&log, nil))
			outage.begin(server)
			upstream := sourceOf(rowsOf(t, 3))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for n, site := range []string{"a", "b", "c"} {
				q := upstream.question("p", narrow(site))
				found, err := c.Do(ctx, q)
				if err != nil || found.Status != Filled {
					t.Errorf("found %+v, %v", found, err)
				}
				c.landed()
				if n := c.metric(t, "redis_errors_total", ""); n != 1 {
					t.Errorf("%v errors of Redis, want one a second", n)
				}
				upstream.want(t, int64(n+1))
			}
			outage.end(server)
			back := patient(t, server)
			q := upstream.question("p", narrow("d"))
			// The time after which Redis is tried again is the clock's; how long a slow machine needs is not.
			c.redis.limits = limitsFor(10 * time.Second)
			c.redis.client = back
			clock.advance(time.Second)
			c.do(t, q, Filled)
			c.landed()
			newReplica(t, back, clock).do(t, q, HitShared)
			if lines := bytes.Count(log.Bytes(), []byte("\n")); lines != 2 {
				t.Errorf("logged %q, want that it went and that it came back", &log)
			}
		})
	}
}

func TestAStepThatItsCallerEndsSaysNothingAboutRedis(t *testing.T) {
	c := newReplica(t, patient(t, redistest.Single(t)), newClock())
	left, leave := context.WithCancel(t.Context())
	leave()
	upstream := sourceOf(rowsOf(t, 3))
	if c.Has(left, upstream.question("p", narrow("a"))) {
		t.Error("it has rows that nobody filled")
	}
	if n := c.metric(t, "redis_errors_total", ""); n != 0 {
		t.Errorf("counted %v errors of Redis", n)
	}
	if c.redis.paused.Load() != 0 {
		t.Error("Redis is let alone")
	}
}

func TestOnlyOneStepProbesARedisThatFailed(t *testing.T) {
	clock := newClock()
	c := newReplica(t, patient(t, redistest.Single(t)), clock)
	trouble := errors.New("trouble")
	steps := 0
	step := func(err error) bool {
		return c.redis.try(t.Context(), time.Minute, func(context.Context) error {
			steps++
			return err
		})
	}
	step(trouble)
	clock.advance(time.Second - 1)
	if step(nil); steps != 1 {
		t.Error("Redis was not let alone for a second")
	}
	clock.advance(1)
	c.redis.try(t.Context(), time.Minute, func(context.Context) error {
		if step(nil) {
			t.Error("a second step went along with the probe")
		}
		return trouble
	})
	clock.advance(time.Second)
	if !step(redis.Nil) || !step(nil) || steps != 3 {
		t.Error("Redis is not in use after a probe that worked")
	}
}
