package cache

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/go-redis/v9"

	"sara/policy/keyring"
	"sara/policy/redisconn"
	"sara/policy/redistest"
)

func TestUnreadableValueIsAMiss(t *testing.T) {
	server := redistest.Single(t)
	client, clock := server.Client(), newClock()
	upstream := answering(rowsOf(t, 3))
	q, foreign := upstream.request("p", narrow("a")), upstream.request("q", narrow("a"))
	key, cacheKey := newLookup(&q).own.redisKey, newLookup(&q).own.key
	first := newReplica(t, server.Client(), clock)
	first.do(t, q, Filled)
	first.settle() // otherwise its entry may overwrite those that the cases set
	codec := newTestCodec(t, maxPayload)
	for _, test := range []struct {
		name, reason string
		change       func(value []byte) any
	}{
		{"truncated", "not_authentic", func(v []byte) any { return v[:len(v)-1] }},
		{"only the magic", "torn", func(v []byte) any { return v[:4] }},
		{"flipped bit", "not_authentic", func(v []byte) any { v[len(v)-20]++; return v }},
		{"another version", "version", func(v []byte) any { v[4]++; return v }},
		{"another program", "torn", func([]byte) any { return "hello" }},
		{"another property", "not_authentic", func([]byte) any { return encoded(t, newLookup(&foreign).own.key, clock.Now()) }},
		{"another query", "not_authentic", func([]byte) any { return encoded(t, newLookup(&q).others[0].key, clock.Now()) }},
		{"another secret key", "unknown_key", func([]byte) any { return encodedWith(t, ringOf(t, 9), cacheKey, clock.Now()) }},
		{"from the future", "future", func([]byte) any { return encoded(t, cacheKey, clock.Now().Add(6*time.Minute)) }},
		{"sealed nonsense", "torn", func([]byte) any {
			return sealedValue(t, codec, cacheKey, append(make([]byte, headerSize), "nonsense"...))
		}},
		{"sealed nothing", "torn", func([]byte) any { return sealedValue(t, codec, cacheKey, nil) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := client.Set(t.Context(), key, test.change(encoded(t, cacheKey, clock.Now())), 0).Err(); err != nil {
				t.Fatal(err)
			}
			c := newReplica(t, server.Client(), clock)
			if c.Has(t.Context(), q) {
				t.Error("Has is true for an unreadable value")
			}
			if n := c.metric(t, "discarded_total", test.reason); n != 1 {
				t.Errorf("counted %v discarded values", n)
			}
			c.do(t, q, Filled)
			c.settle()
			newReplica(t, server.Client(), clock).do(t, q, HitShared)
		})
	}
	t.Run("another type", func(t *testing.T) {
		client.Del(t.Context(), key)
		client.LPush(t.Context(), key, "hello")
		c := newReplica(t, server.Client(), clock)
		c.do(t, q, Filled)
		c.settle()
		newReplica(t, server.Client(), clock).do(t, q, HitShared)
		if n := c.metric(t, "redis_errors_total", ""); n != 0 {
			t.Errorf("counted %v Redis errors", n)
		}
	})
}

// A replica of another version, running during an update, keeps its own copy of the same rows: until version 6 under the plain hash.
func TestVersionsDoNotReplaceTheCopiesOfEachOther(t *testing.T) {
	server, clock := redistest.Single(t), newClock()
	q := answering(rowsOf(t, 3)).request("p", narrow("a"))
	own := newLookup(&q).own
	other := fmt.Sprintf("sara:c:{p}:%016x", xxhash.Sum64String(own.key))
	if err := server.Client().Set(t.Context(), other, "a copy", 0).Err(); err != nil {
		t.Fatal(err)
	}
	c := newReplica(t, server.Client(), clock)
	c.do(t, q, Filled)
	c.settle()
	newReplica(t, server.Client(), clock).do(t, q, HitShared)
	if got := server.Client().Get(t.Context(), other).Val(); got != "a copy" {
		t.Errorf("the copy of the other version is %q", got)
	}
}

// An altered segment of rows after the headers is found when the rows are decoded.
func TestAlteredLastSegmentIsAMiss(t *testing.T) {
	server := redistest.Single(t)
	clock, rows := newClock(), rowsOf(t, 25_000)
	q := answering(rows).request("p", narrow("a"))
	own := newLookup(&q).own
	codec := newTestCodec(t, maxPayload)
	value := codec.encode(&Entry{key: own.key, rows: rows, filled: clock.Now()})
	if len(value) < 2*keyring.SegmentSize {
		t.Fatalf("the value has %d bytes: less than three segments", len(value))
	}
	value[len(value)-1]++
	if err := server.Client().Set(t.Context(), own.redisKey, value, 0).Err(); err != nil {
		t.Fatal(err)
	}
	c := newReplica(t, server.Client(), clock)
	c.do(t, q, Filled)
	if n := c.metric(t, "discarded_total", "not_authentic"); n == 0 {
		t.Error("it is not counted")
	}
}

// The secret key changes: replicas that have the previous key too can read what it sealed.
func TestCopiesOpenWithThePreviousKey(t *testing.T) {
	server := redistest.Single(t)
	clock := newClock()
	q := answering(rowsOf(t, 3)).request("p", narrow("a"))
	before := newReplicaWithKeys(t, server.Client(), clock, ringOf(t, 1))
	before.do(t, q, Filled)
	before.settle()
	newReplicaWithKeys(t, server.Client(), clock, ringOf(t, 2, 1)).do(t, q, HitShared)
	after := newReplicaWithKeys(t, server.Client(), clock, ringOf(t, 2))
	after.do(t, q, Filled)
	after.settle()
	newReplicaWithKeys(t, server.Client(), clock, ringOf(t, 2, 1)).do(t, q, HitShared)
}

// Without a secret key, nothing is shared, and Redis is not used.
func TestWithoutKeysNothingIsShared(t *testing.T) {
	server := redistest.Single(t)
	q := answering(rowsOf(t, 3)).request("p", narrow("a"))
	for range 2 {
		c := newReplicaWithKeys(t, server.Client(), newClock(), nil)
		c.do(t, q, Filled)
		c.settle()
	}
	if n := server.Client().DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("Redis has %d keys", n)
	}
}

// Many copies that cannot be decrypted are one log line a minute.
func TestCopiesThatDoNotOpenAreLoggedOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	clock := newClock()
	m, err := newMetrics(nil, newMemory(1))
	if err != nil {
		t.Fatal(err)
	}
	s := &sharedStore{now: clock.Now, metrics: m, log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 3 {
		for range 10 {
			s.discard("sara:c:{p}:0", keyring.ErrNotAuthentic)
		}
		clock.advance(warnInterval)
	}
	if n := strings.Count(log.String(), "sara:c:{p}:0"); n != 3 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
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

// A miss reads the copies and takes the lease in one command, and then writes the row, its place in the index, the lease and the event
// in another. A cluster takes one more for the index. A copy takes one command.
func TestMissTakesTwoCommands(t *testing.T) {
	t.Parallel()
	redistest.OnBoth(t, func(t *testing.T, connect func() redisconn.Client) {
		client, clock := connect(), newClock()
		want := int64(2)
		if redisconn.IsCluster(client) {
			want = 3
		}
		c := newReplica(t, client, clock)
		upstream := answering(rowsOf(t, 3))
		c.do(t, upstream.request("p", narrow("first")), Filled) // loads the scripts, and looks at the memory
		c.settle()
		counted := &roundTrips{}
		client.AddHook(counted)
		c.do(t, upstream.request("p", narrow("a")), Filled)
		c.settle()
		if commands, trips := counted.commands.Load(), counted.trips.Load(); commands != want || trips != want {
			t.Errorf("%d commands in %d round trips, want %d in %d", commands, trips, want, want)
		}
		client, counted = connect(), &roundTrips{}
		other := newReplica(t, client, clock)
		other.do(t, upstream.request("p", narrow("first")), HitShared) // connects
		client.AddHook(counted)
		other.do(t, upstream.request("p", narrow("a")), HitShared)
		if commands, trips := counted.commands.Load(), counted.trips.Load(); commands != 1 || trips != 1 {
			t.Errorf("a copy: %d commands in %d round trips, want 1", commands, trips)
		}
	})
}
