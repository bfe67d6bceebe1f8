package upstream

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

const (
	// maxCooldown is the longest cooldown that is accepted from Redis: the upstream's longest quota window is a day.
	maxCooldown = 48 * time.Hour
	// defaultRedisPatience bounds how long an unresponsive Redis may delay a request, here and in the response cache together.
	defaultRedisPatience = 100 * time.Millisecond
	// redisOpenTime is how long Redis is not used after an error.
	redisOpenTime = time.Second
)

// cooldowns are the sites that must not be queried because the upstream's quota for them is exhausted. They are kept in
// memory and, with a Redis, shared by all replicas.
type cooldowns struct {
	now   func() time.Time
	sites expiringMap[string, *Error] // the refusal, by site

	redis   redis.UniversalClient // nil: not shared
	timeout time.Duration         // of one step with Redis
	breaker *breaker              // of Redis
	errors  prometheus.Counter    // of steps with Redis; nil: not counted
}

func newCooldowns(cfg Config) *cooldowns {
	onChange := func(isOpen bool) {
		if isOpen {
			cfg.Log.Warn("cooldowns are not shared: Redis does not answer")
		} else {
			cfg.Log.Info("cooldowns are shared over Redis again")
		}
	}
	return &cooldowns{
		now:   cfg.Now,
		redis: cfg.Redis, errors: cfg.RedisErrors,
		// The response cache spends up to six tenths of the patience before it fills, and nothing after that if Redis failed it.
		timeout: cmp.Or(cfg.RedisPatience, defaultRedisPatience) * 4 / 10,
		breaker: &breaker{host: "Redis", threshold: 1, openTime: redisOpenTime, now: cfg.Now, onChange: onChange, onRefuse: func() {}},
	}
}

// start begins the cooldown of a site, for as long as the refusal asks.
func (c *cooldowns) start(ctx context.Context, site string, refusal *Error) {
	if refusal.RetryAfter <= 0 {
		return
	}
	now := c.now()
	until := now.Add(refusal.RetryAfter)
	c.sites.put(site, refusal, until, now)
	if c.redis == nil {
		return
	}
	text, err := json.Marshal(refusal)
	if err != nil {
		return
	}
	value := appendCooldown(nil, until, text)
	c.try(ctx, func(ctx context.Context) error {
		return c.redis.Set(ctx, cooldownKey(site), value, refusal.RetryAfter).Err()
	})
}

// left returns the remaining cooldown of a site, and the refusal that started it; 0 and nil if there is none. For a site that
// is not in memory it makes one round trip to Redis.
func (c *cooldowns) left(ctx context.Context, site string) (time.Duration, *Error) {
	now := c.now()
	if refusal, until, ok := c.sites.get(site, now); ok {
		return until.Sub(now), refusal
	}
	if c.redis == nil {
		return 0, nil
	}
	var value []byte
	c.try(ctx, func(ctx context.Context) (err error) {
		value, err = c.redis.Get(ctx, cooldownKey(site)).Bytes()
		return err
	})
	until, text, ok := parseCooldown(value)
	left := until.Sub(now)
	if !ok || left <= 0 || left > maxCooldown {
		return 0, nil
	}
	refusal := new(Error)
	if json.Unmarshal(text, refusal) != nil {
		refusal = &Error{Kind: Unavailable, Message: "another replica failed to ask it"}
	}
	c.sites.put(site, refusal, until, now)
	return left, refusal
}

// try runs a step with Redis unless its circuit breaker is open. If a step fails, the replicas do not share that cooldown.
func (c *cooldowns) try(ctx context.Context, step func(context.Context) error) {
	done, err := c.breaker.allow()
	if err != nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err = step(bounded)
	switch {
	case err == nil || errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE"):
		done(success)
	case ctx.Err() != nil: // the caller left
		done(inconclusive)
	default:
		done(failure)
		if c.errors != nil {
			c.errors.Inc()
		}
	}
}

func cooldownKey(site string) string { return "sara:rest:" + site }

// Format of a cooldown in Redis: a version, its end in milliseconds since 1970, the refusal as JSON, and the xxHash64 of all
// that; numbers are little-endian.
const (
	cooldownVersion = 1
	cooldownHead    = 1 + 8
	cooldownSum     = 8
)

func appendCooldown(dst []byte, until time.Time, refusal []byte) []byte {
	start := len(dst)
	dst = append(dst, cooldownVersion)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(until.UnixMilli()))
	dst = append(dst, refusal...)
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

func parseCooldown(value []byte) (until time.Time, refusal []byte, ok bool) {
	body := len(value) - cooldownSum
	if body < cooldownHead || value[0] != cooldownVersion || xxhash.Sum64(value[:body]) != binary.LittleEndian.Uint64(value[body:]) {
		return time.Time{}, nil, false
	}
	return time.UnixMilli(int64(binary.LittleEndian.Uint64(value[1:]))), value[cooldownHead:body], true
}

// maxExpiring bounds an expiringMap. When that many entries are alive, all are dropped: each costs one call or one write.
const maxExpiring = 10_000

// An expiringMap is a bounded map whose entries expire. The zero value is ready; it is safe for concurrent use.
type expiringMap[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]expiring[V] // guarded by mu
}

type expiring[V any] struct {
	value V
	until time.Time
}

// get returns the entry of a key and when it expires; ok is false if there is none.
func (m *expiringMap[K, V]) get(key K, now time.Time) (value V, until time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	return e.value, e.until, now.Before(e.until)
}

func (m *expiringMap[K, V]) put(key K, value V, until, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.entries) >= maxExpiring {
		for k, e := range m.entries {
			if !now.Before(e.until) {
				delete(m.entries, k)
			}
		}
	}
	if m.entries == nil || len(m.entries) >= maxExpiring {
		m.entries = make(map[K]expiring[V])
	}
	m.entries[key] = expiring[V]{value, until}
}
