package upstream

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sara/policy/keyring"
	"sara/policy/redisconn"
	"sara/policy/redistest"
)

func testKeys() *keyring.Keyring {
	keys, err := keyring.New(make([]byte, keyring.KeySize))
	if err != nil {
		panic(err)
	}
	return keys
}

// replica returns the cooldowns of one process.
func replica(clock *settable, client redisconn.Client) *cooldowns {
	return newCooldowns(Config{Now: clock.Now, Redis: client, Keyring: testKeys(), RedisPatience: 10 * time.Second, Log: slog.New(slog.DiscardHandler)})
}

func TestReplicasShareCooldowns(t *testing.T) {
	t.Parallel() // with TestSlowAttemptIsRetried, which waits too
	redistest.OnBoth(t, func(t *testing.T, connect func() redisconn.Client) {
		client := connect()
		clock := new(settable)
		clock.advance(time.Hour)
		one, other := replica(clock, client), replica(clock, client)
		exhausted := &Error{Kind: Quota, Status: 403, Reason: "quotaExceeded", Message: "Load quota exceeded.", RetryAfter: time.Hour}
		one.start(t.Context(), "a", exhausted)
		one.start(t.Context(), "a", &Error{Kind: Quota, RetryAfter: time.Minute}) // of a call that was under way
		one.start(t.Context(), "b", &Error{Kind: Quota})
		clock.advance(time.Minute)
		for _, test := range []struct {
			name string
			by   *cooldowns
			site string
			left time.Duration
		}{
			{"here", one, "a", 59 * time.Minute}, {"elsewhere", other, "a", 59 * time.Minute}, {"elsewhere, from memory", other, "a", 59 * time.Minute},
			{"without a time", one, "b", 0}, {"another site", one, "c", 0},
		} {
			left, refusal := test.by.left(t.Context(), Target{Site: test.site})
			if left != test.left || (refusal != nil) != (left > 0) || refusal != nil && *refusal != *exhausted {
				t.Errorf("%s: %v left, %v", test.name, left, refusal)
			}
		}
		clock.advance(59 * time.Minute)
		if left, refusal := other.left(t.Context(), Target{Site: "a"}); refusal != nil || left != 0 {
			t.Errorf("after its end: %v left, %v", left, refusal)
		}
	})
}

// Each replica has its own calls in flight: one may be refused for the rate while another is refused for the load quota.
func TestShorterCooldownOfAnotherReplicaDoesNotShorten(t *testing.T) {
	t.Parallel()
	redistest.OnBoth(t, func(t *testing.T, connect func() redisconn.Client) {
		client := connect()
		clock := new(settable)
		one, other, third := replica(clock, client), replica(clock, client), replica(clock, client)
		want := func(left time.Duration) {
			t.Helper()
			if got, refusal := third.left(t.Context(), Target{Site: "a"}); got != left || (refusal != nil) != (left > 0) {
				t.Errorf("%v left, want %v", got, left)
			}
		}
		one.start(t.Context(), "a", &Error{Kind: Quota, RetryAfter: 15 * time.Minute})
		other.start(t.Context(), "a", &Error{Kind: Quota, RetryAfter: time.Minute})
		want(15 * time.Minute)
		other.start(t.Context(), "a", &Error{Kind: Quota, RetryAfter: 24 * time.Hour})
		third = replica(clock, client)
		want(24 * time.Hour)
	})
}

// A replica whose clock is ahead does not keep a site from being queried for longer than the upstream asked.
func TestCooldownOfAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	client, clock, ahead := redistest.Single(t).Client(), new(settable), new(settable)
	ahead.advance(24 * time.Hour)
	replica(ahead, client).start(t.Context(), "a", &Error{Kind: Quota, RetryAfter: time.Hour})
	other := replica(clock, client)
	for _, from := range []string{"Redis", "memory"} {
		if left, refusal := other.left(t.Context(), Target{Site: "a"}); left != time.Hour || refusal == nil {
			t.Errorf("from %s: %v left, %v", from, left, refusal)
		}
	}
	clock.advance(time.Hour)
	client.Del(t.Context(), cooldownKey("a")) // as it would have expired
	if left, refusal := other.left(t.Context(), Target{Site: "a"}); refusal != nil || left != 0 {
		t.Errorf("after its end: %v left, %v", left, refusal)
	}
}

func TestMalformedCooldownsAreIgnored(t *testing.T) {
	clock := new(settable)
	client := redistest.Single(t).Client()
	c := replica(clock, client)
	own, hour, tooLong := cooldownKey("a"), clock.Now().Add(time.Hour), clock.Now().Add(49*time.Hour)
	for name, value := range map[string][]byte{
		"empty": nil, "letters": []byte("x"),
		"too long": appendCooldown(c.sealer, own, tooLong, nil), "too short": c.sealer.AppendSeal(nil, []byte("1234567"), []byte(own)),
		"cut": appendCooldown(c.sealer, own, hour, nil)[1:], "of another site": appendCooldown(c.sealer, cooldownKey("b"), hour, nil),
		"not sealed": binary.LittleEndian.AppendUint64(nil, uint64(hour.UnixMilli())),
	} {
		client.Set(t.Context(), own, value, 0)
		if left, refusal := c.left(t.Context(), Target{Site: "a"}); refusal != nil || left != 0 {
			t.Errorf("%s: %v left, %v", name, left, refusal)
		}
	}
	client.Set(t.Context(), own, appendCooldown(c.sealer, own, hour, []byte("{}")), 0)
	if left, refusal := c.left(t.Context(), Target{Site: "a"}); left != time.Hour || refusal == nil || refusal.Kind != Unavailable {
		t.Errorf("a refusal of another version: %v left, %v", left, refusal)
	}
}

// Replicas of different versions share cooldowns, so keys and values must not change.
func TestCooldownFormat(t *testing.T) {
	sealer := testKeys().Sealer(cooldownPurpose)
	const key, want = "sara:rest:sc-domain:example.com", "0026acaa9a010000" + "7b226b696e64223a2271756f7461227d"
	value := appendCooldown(sealer, key, time.UnixMilli(1_763_800_000_000), []byte(`{"kind":"quota"}`))
	if plain, err := sealer.AppendOpen(nil, value, []byte(key)); err != nil || hex.EncodeToString(plain) != want {
		t.Errorf("got %x, %v, want %s", plain, err, want)
	}
	if got := cooldownKey("sc-domain:example.com"); got != key {
		t.Errorf("the key is %s", got)
	}
}

// While Redis is down, cooldowns stay in the process, and at most one lookup a second tries Redis.
func TestRedisOutageCostsOneStepASecond(t *testing.T) {
	clock := new(settable)
	var log bytes.Buffer
	server := redistest.Single(t)
	c := replica(clock, server.Client())
	c.timeout = 10 * time.Second
	c.errors = prometheus.NewCounter(prometheus.CounterOpts{Name: "errors"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(c.errors)
	steps := 0
	try := func(err error) { c.try(t.Context(), func(context.Context) error { steps++; return err }) }
	c.breaker.OnChange = newCooldowns(Config{Now: clock.Now, Log: slog.New(slog.NewTextHandler(&log, nil))}).breaker.OnChange
	for _, step := range []struct {
		advance time.Duration
		err     error
		steps   int
	}{
		{0, redis.Nil, 1}, {0, errors.New("refused"), 2}, {0, nil, 2}, {redisPause - 1, nil, 2}, {1, errors.New("refused"), 3}, {0, nil, 3},
		{redisPause, nil, 4}, {0, nil, 5},
	} {
		clock.advance(step.advance)
		if try(step.err); steps != step.steps {
			t.Errorf("%d steps, want %d", steps, step.steps)
		}
	}
	if lines := bytes.Count(log.Bytes(), []byte("\n")); lines != 2 || !bytes.Contains(log.Bytes(), []byte("error=refused")) {
		t.Errorf("logged %q, want the outage, why it began, and its end", &log)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	c.try(gone, func(context.Context) error { return context.Canceled })
	if try(nil); steps != 6 {
		t.Error("a caller that left opened the breaker")
	}
	server.Kill()
	c.start(t.Context(), "a", &Error{Kind: Quota, RetryAfter: time.Hour})
	if left, refusal := c.left(t.Context(), Target{Site: "a"}); refusal == nil || left != time.Hour {
		t.Errorf("%v left, %v", left, refusal)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if n := families[0].GetMetric()[0].GetCounter().GetValue(); n != 3 {
		t.Errorf("%v errors are counted, want those of two steps that were refused and of one without a server", n)
	}
}

func TestExpiringMapIsBounded(t *testing.T) {
	var m expiringMap[int, struct{}]
	now := time.Unix(0, 0)
	for key := range maxExpiring {
		m.put(key, struct{}{}, now.Add(time.Duration(1+key%2)*time.Minute), now)
	}
	now = now.Add(time.Minute)
	m.put(-1, struct{}{}, now.Add(time.Minute), now)
	if n := len(m.entries); n != maxExpiring/2+1 {
		t.Errorf("%d entries, want those that are alive and the new one", n)
	}
	for key := range 2 * maxExpiring {
		m.put(key, struct{}{}, now.Add(time.Hour), now)
	}
	if n := len(m.entries); n > maxExpiring {
		t.Errorf("%d entries, want %d at most", n, maxExpiring)
	}
}
