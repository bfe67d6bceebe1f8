package cache

import (
	"strings"
	"testing"
	"time"

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
