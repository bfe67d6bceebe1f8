package upstream

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/breaker"
	"sara/policy/keyring"
	"sara/policy/redisconn"
)

const (
	// maxCooldown is the longest cooldown that is accepted from Redis: the upstream's longest quota window is a day.
	maxCooldown = 48 * time.Hour
	// defaultRedisPatience bounds how long an unresponsive Redis may delay a request, here and in the response cache together.
	defaultRedisPatience = 100 * time.Millisecond
	// redisPause is how long Redis is not used after an error.
	redisPause = time.Second
)

// cooldowns are the sites that must not be queried because the upstream's quota for them is exhausted. They are kept in
// memory and, with Redis, shared by all replicas.
type cooldowns struct {
	now   func() time.Time
	sites expiringMap[string, *Error] // the refusal, by site

	redis   redisconn.Client   // nil: not shared
	sealer  *keyring.Sealer    // of what is shared
	timeout time.Duration      // of one step with Redis
	breaker breaker.Breaker    // of Redis
	errors  prometheus.Counter // of Redis steps; nil: not counted
}

func newCooldowns(cfg Config) *cooldowns {
	noteOutage := func(failure error) {
		if failure != nil {
			cfg.Log.Warn("cooldowns are not shared", "error", failure)
		} else {
			cfg.Log.Info("cooldowns are shared over Redis again")
		}
	}
	c := &cooldowns{
		now: cfg.Now, errors: cfg.RedisErrors,
		// The response cache spends up to six tenths of the patience before it fills, and nothing after that if Redis failed it.
		timeout: cmp.Or(cfg.RedisPatience, defaultRedisPatience) * 4 / 10,
		breaker: breaker.Breaker{Threshold: 1, Pause: redisPause, Now: cfg.Now, OnChange: noteOutage},
	}
	if cfg.Redis != nil && cfg.Keyring != nil {
		c.redis, c.sealer = cfg.Redis, cfg.Keyring.Sealer(cooldownPurpose)
	}
	return c
}

// startLua writes a cooldown (ARGV[1]), which lasts for some milliseconds (ARGV[2]), unless one that lasts longer is there.
const startLua = `return redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) and redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])`

// start begins the cooldown of a site, for as long as the refusal asks. A longer one, here or of another replica, is not shortened by the
// refusal of a call already in flight.
func (c *cooldowns) start(ctx context.Context, site string, refusal *Error) {
	if refusal.RetryAfter <= 0 {
		return
	}
	now := c.now()
	until := now.Add(refusal.RetryAfter)
	if _, end, ok := c.sites.get(site, now); ok && !until.After(end) {
		return
	}
	c.sites.put(site, refusal, until, now)
	if c.redis == nil {
		return
	}
	text, err := json.Marshal(refusal)
	if err != nil {
		return
	}
	key := cooldownKey(site)
	value := appendCooldown(c.sealer, key, until, text)
	c.try(ctx, func(ctx context.Context) error {
		return c.redis.Eval(ctx, startLua, []string{key}, value, max(1, refusal.RetryAfter.Milliseconds())).Err()
	})
}

// left returns the remaining cooldown of a target's site, and the refusal that started it; 0 and nil if there is none. For a site that
// is not in memory it makes one round trip to Redis, unless the caller has just read it there. A value that cannot be decrypted is
// ignored, so an attacker who can write to Redis can neither keep a site from being queried nor choose what customers read about it.
func (c *cooldowns) left(ctx context.Context, t Target) (time.Duration, *Error) {
	now := c.now()
	if refusal, until, ok := c.sites.get(t.Site, now); ok {
		return until.Sub(now), refusal
	}
	if c.redis == nil {
		return 0, nil
	}
	key, value := cooldownKey(t.Site), t.Cooldown
	if !t.CooldownRead {
		c.try(ctx, func(ctx context.Context) (err error) {
			value, err = c.redis.Get(ctx, key).Bytes()
			return err
		})
	}
	until, text, ok := parseCooldown(c.sealer, key, value)
	left := until.Sub(now)
	if !ok || left <= 0 || left > maxCooldown {
		return 0, nil
	}
	refusal := new(Error)
	if json.Unmarshal(text, refusal) != nil {
		refusal = &Error{Kind: Unavailable, Message: "the call of another replica failed"}
	}
	if refusal.RetryAfter > 0 { // more can be left only if the writing replica's clock is ahead
		left = min(left, refusal.RetryAfter)
	}
	c.sites.put(t.Site, refusal, now.Add(left), now)
	return left, refusal
}

// try runs a step with Redis unless its circuit breaker is open. If a step fails, that cooldown is not shared.
func (c *cooldowns) try(ctx context.Context, step func(context.Context) error) {
	if c.breaker.Admit() > 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := step(bounded)
	switch {
	case redisconn.IsAnswer(err):
		c.breaker.Succeeded()
	case ctx.Err() != nil: // the caller left
		c.breaker.Inconclusive()
	default:
		c.breaker.Failed(err)
		if c.errors != nil {
			c.errors.Inc()
		}
	}
}

func cooldownKey(site string) string { return "sara:rest:" + site }

// Format of a cooldown in Redis: an envelope of package keyring, with the Redis key as additional data, of its end in milliseconds
// since 1970 (8 bytes, little-endian) and the refusal as JSON.
const (
	cooldownPurpose = "cooldowns"
	cooldownHead    = 8
)

func appendCooldown(sealer *keyring.Sealer, key string, until time.Time, refusal []byte) []byte {
	plain := binary.LittleEndian.AppendUint64(nil, uint64(until.UnixMilli()))
	return sealer.AppendSeal(nil, append(plain, refusal...), []byte(key))
}

func parseCooldown(sealer *keyring.Sealer, key string, value []byte) (until time.Time, refusal []byte, ok bool) {
	plain, err := sealer.AppendOpen(nil, value, []byte(key))
	if err != nil || len(plain) < cooldownHead {
		return time.Time{}, nil, false
	}
	return time.UnixMilli(int64(binary.LittleEndian.Uint64(plain))), plain[cooldownHead:], true
}
