package cache

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redistest"
)

func TestUnreadableValueIsAMiss(t *testing.T) {
	server := redistest.Single(t)
	client, clock := server.Client(), newClock()
	upstream := answering(rowsOf(t, 3))
	q := upstream.request("p", narrow("a"))
	key := newLookup(&q).own.redisKey
	first := newReplica(t, patientClient(t, server), clock)
	first.do(t, q, Filled)
	first.settle() // or its entry may overwrite those that the cases set
	for _, test := range []struct {
		name, reason string
		change       func(value []byte) any
	}{
		{"truncated", "torn", func(v []byte) any { return v[:len(v)-1] }},
		{"only the magic", "torn", func(v []byte) any { return v[:4] }},
		{"flipped bit", "torn", func(v []byte) any { v[40]++; return v }},
		{"another version", "version", func(v []byte) any { v[4]++; return v }},
		{"another program", "torn", func([]byte) any { return "hello" }},
		{"another key", "foreign", func([]byte) any { return encoded(t, "other", clock.Now()) }},
		{"from the future", "foreign", func([]byte) any { return encoded(t, newLookup(&q).own.key, clock.Now().Add(6*time.Minute)) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			value, err := encodedBy(t, newLookup(&q).own.key, clock.Now())
			if err == nil {
				err = client.Set(t.Context(), key, test.change(value), 0).Err()
			}
			if err != nil {
				t.Fatal(err)
			}
			c := newReplica(t, patientClient(t, server), clock)
			if c.Has(t.Context(), q) {
				t.Error("Has is true for an unreadable value")
			}
			if n := c.metric(t, "discarded_total", test.reason); n != 1 {
				t.Errorf("counted %v discarded values", n)
			}
			c.do(t, q, Filled)
			c.settle()
			newReplica(t, patientClient(t, server), clock).do(t, q, HitShared)
		})
	}
	t.Run("another type", func(t *testing.T) {
		client.Del(t.Context(), key)
		client.LPush(t.Context(), key, "hello")
		c := newReplica(t, patientClient(t, server), clock)
		c.do(t, q, Filled)
		c.settle()
		newReplica(t, patientClient(t, server), clock).do(t, q, HitShared)
		if n := c.metric(t, "redis_errors_total", ""); n != 0 {
			t.Errorf("counted %v Redis errors", n)
		}
	})
}

func TestRedisKeysHashToTheSlotOfTheProperty(t *testing.T) {
	q := answering(nil).request("sc-1", narrow("a"))
	i := newLookup(&q)
	if !strings.HasPrefix(i.own.redisKey, "sara:c:{sc-1}:") || len(i.own.redisKey) != len("sara:c:{sc-1}:")+16 {
		t.Errorf("the key is %q", i.own.redisKey)
	}
	if i.others[0].redisKey == i.own.redisKey {
		t.Error("both samples have the same key")
	}
}

// roundTrips counts the commands and the round trips of a client.
type roundTrips struct{ commands, trips atomic.Int64 }

func (r *roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }
func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.commands.Add(1)
		r.trips.Add(1)
		return next(ctx, cmd)
	}
}
func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.commands.Add(int64(len(cmds)))
		r.trips.Add(1)
		return next(ctx, cmds)
	}
}

// A miss reads both samples, takes the lease and reads again, and then writes the row, its place in the index, the lease and the
// event at once. A cluster takes one more round trip for the index.
func TestMissTakesThreeRoundTrips(t *testing.T) {
	for _, kind := range []struct {
		name            string
		start           func(t *testing.T) (client func() redis.UniversalClient)
		commands, trips int64
	}{{"on one Redis", onSingle, 7, 3}, {"on a cluster", onCluster, 8, 4}} {
		t.Run(kind.name, func(t *testing.T) {
			if testing.Short() && kind.name == "on a cluster" {
				t.Skip("a cluster takes two seconds to start")
			}
			client := kind.start(t)()
			c := newReplica(t, client, newClock())
			upstream := answering(rowsOf(t, 3))
			c.do(t, upstream.request("p", narrow("first")), Filled) // loads the scripts, and looks at the memory
			c.settle()
			counted := &roundTrips{}
			client.AddHook(counted)
			c.do(t, upstream.request("p", narrow("a")), Filled)
			c.settle()
			if commands, trips := counted.commands.Load(), counted.trips.Load(); commands != kind.commands || trips != kind.trips {
				t.Errorf("%d commands in %d round trips, want %d in %d", commands, trips, kind.commands, kind.trips)
			}
		})
	}
}
