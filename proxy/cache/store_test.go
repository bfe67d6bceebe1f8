package cache

import (
	"strings"
	"testing"
	"time"

	"sara/policy/redistest"
)

func TestWhatIsNotUnderstoodIsAMiss(t *testing.T) {
	server := redistest.Single(t)
	client, clock := server.Client(), newClock()
	upstream := sourceOf(rowsOf(t, 3))
	q := upstream.question("p", narrow("a"))
	key := newLookup(&q).own.shared
	first := newReplica(t, patient(t, server), clock)
	first.do(t, q, Filled)
	first.landed() // or its copy might come after those that are put there
	for _, test := range []struct {
		name, reason string
		change       func(value []byte) any
	}{
		{"truncated", "torn", func(v []byte) any { return v[:len(v)-1] }},
		{"cut to its magic", "torn", func(v []byte) any { return v[:4] }},
		{"flipped", "torn", func(v []byte) any { v[40]++; return v }},
		{"of another version", "version", func(v []byte) any { v[4]++; return v }},
		{"of another program", "torn", func([]byte) any { return "hello" }},
		{"of another key", "foreign", func([]byte) any { return encoded(t, "other", clock.Now()) }},
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
			c := newReplica(t, patient(t, server), clock)
			if c.Has(t.Context(), q) {
				t.Error("it has what it cannot understand")
			}
			if n := c.metric(t, "discarded_total", test.reason); n != 1 {
				t.Errorf("counted %v values", n)
			}
			c.do(t, q, Filled)
			c.landed()
			newReplica(t, patient(t, server), clock).do(t, q, HitShared)
		})
	}
	t.Run("of another type", func(t *testing.T) {
		client.Del(t.Context(), key)
		client.LPush(t.Context(), key, "hello")
		c := newReplica(t, patient(t, server), clock)
		c.do(t, q, Filled)
		c.landed()
		newReplica(t, patient(t, server), clock).do(t, q, HitShared)
		if n := c.metric(t, "redis_errors_total", ""); n != 0 {
			t.Errorf("counted %v errors of Redis", n)
		}
	})
}

func TestKeysAreOfTheirProperty(t *testing.T) {
	q := sourceOf(nil).question("sc-1", narrow("a"))
	i := newLookup(&q)
	if !strings.HasPrefix(i.own.shared, "sara:c:{sc-1}:") || len(i.own.shared) != len("sara:c:{sc-1}:")+16 {
		t.Errorf("the key is %q", i.own.shared)
	}
	if i.others[0].shared == i.own.shared {
		t.Error("the samples share a key")
	}
}
