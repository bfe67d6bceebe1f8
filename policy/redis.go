package policy

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// RedisStepTimeout bounds each dial, read and write for requests. They cannot wait longer for Redis, and have memory to fall back on.
const RedisStepTimeout = 100 * time.Millisecond

// redisURLHelp ends the errors about a Redis URL.
const redisURLHelp = "write redis://HOST:6379, or rediss://:PASSWORD@HOST:6379 with TLS and a password"

// OpenRedis returns a client for a URL in one of the forms of go-redis: redis:// or rediss:// for a single server, unix:// for
// a socket; with master_name (and addr for further sentinels) for Sentinel; with addr for the further nodes of a cluster. It
// does not connect yet. step is the timeout of each dial, read and write: RedisStepTimeout for requests, more for what can wait.
// On connecting, the client sends nothing but HELLO, so that access control lists need no more than the commands that sara uses.
// The client never retries by itself: a charge is not idempotent, and a retry might count it twice. Errors quote no more of the URL
// than RedisAddress shows.
func OpenRedis(address string, step time.Duration) (redis.UniversalClient, error) {
	parsed, err := parseRedis(address)
	if err != nil {
		return nil, err
	}
	var client redis.UniversalClient
	switch query := parsed.Query(); {
	case query.Get("master_name") != "":
		var o *redis.FailoverOptions
		if o, err = redis.ParseFailoverURL(address); err == nil {
			o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = step, step, step, step
			o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity = -1, 1, true, true
			client = redis.NewFailoverClient(o)
		}
	case query.Has("addr"):
		var o *redis.ClusterOptions
		if o, err = redis.ParseClusterURL(address); err == nil {
			o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = step, step, step, step
			o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity = -1, 1, true, true
			o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
			client = redis.NewClusterClient(o)
		}
	default:
		var o *redis.Options
		if o, err = redis.ParseURL(address); err == nil {
			o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = step, step, step, step
			o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity = -1, 1, true, true
			o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
			client = redis.NewClient(o)
		}
	}
	if err != nil {
		// The error of the library may quote a secret.
		return nil, fmt.Errorf("the Redis URL %s has a path that is not a database number, or an unknown or "+
			"invalid parameter: %s; add a database as /0, and a parameter as ?pool_size=50", RedisAddress(address), redisURLHelp)
	}
	return client, nil
}

// RedisAddress returns the parts of a Redis URL that are not secret: scheme, host and port, or the path of a socket. A
// malformed URL is not shown at all, since any part of it may belong to a password.
func RedisAddress(address string) string {
	parsed, err := parseRedis(address)
	if err != nil {
		return "[not shown, since it may hold a password]"
	}
	if parsed.Scheme == "unix" {
		return "unix://" + parsed.Path
	}
	return parsed.Scheme + "://" + parsed.Host
}

// parseRedis rejects URLs that name no server, for which go-redis would use localhost. Its errors do not quote the URL.
func parseRedis(address string) (*url.URL, error) {
	parsed, err := url.Parse(address)
	_, afterScheme, absolute := strings.Cut(address, "://")
	switch {
	case err != nil || !absolute || parsed.Opaque != "":
		return nil, errors.New("the Redis URL is not a URL: " + redisURLHelp)
	case parsed.Scheme != "redis" && parsed.Scheme != "rediss" && parsed.Scheme != "unix":
		return nil, errors.New("the Redis URL begins with neither redis:// nor rediss://: " + redisURLHelp)
	case strings.Count(afterScheme, "@") > 1 || strings.Contains(afterScheme, "@") && parsed.User == nil || parsed.Fragment != "":
		return nil, errors.New("the Redis URL has an @ or a # out of place: " + redisURLHelp + ", with special characters percent-encoded")
	case parsed.Scheme == "unix" && (parsed.Host != "" || parsed.Path == ""):
		return nil, errors.New("the Redis URL names no socket: write unix:///PATH, or unix://:PASSWORD@/PATH with a password")
	case parsed.Scheme != "unix" && parsed.Hostname() == "":
		return nil, errors.New("the Redis URL names no host: " + redisURLHelp)
	}
	return parsed, nil
}

// noRetry marks a command as not idempotent. Without it, a cluster client resends a command whose connection broke before the
// reply, whatever its options say, and a charge would count twice.
type noRetry struct{ redis.Cmder }

// NoRetry implements the interface that go-redis checks.
func (noRetry) NoRetry() bool { return true }

// A noRetryClient sends each script call at most once.
type noRetryClient struct{ redis.UniversalClient }

// EvalSha runs a script by its hash.
func (c noRetryClient) EvalSha(ctx context.Context, hash string, keys []string, arguments ...any) *redis.Cmd {
	return c.call(ctx, "evalsha", hash, keys, arguments)
}

// Eval runs a script by its source.
func (c noRetryClient) Eval(ctx context.Context, script string, keys []string, arguments ...any) *redis.Cmd {
	return c.call(ctx, "eval", script, keys, arguments)
}

func (c noRetryClient) call(ctx context.Context, verb, script string, keys []string, arguments []any) *redis.Cmd {
	args := []any{verb, script, len(keys)}
	for _, key := range keys {
		args = append(args, key)
	}
	cmd := redis.NewCmd(ctx, append(args, arguments...)...)
	cmd.SetFirstKeyPos(firstKey)
	_ = c.Process(ctx, noRetry{cmd}) // the error is in cmd
	return cmd
}

func (c noRetryClient) isCluster() bool {
	_, ok := c.UniversalClient.(*redis.ClusterClient)
	return ok
}

// A redisClock estimates the clock of Redis, which decides the windows of all replicas, from the last reply. The estimate is
// never behind Redis, and ahead of it by at most the duration of that round trip. While Redis is down, the fallback uses it to
// continue the same windows; while Redis is up, it expresses deadlines in Redis' own time.
type redisClock struct {
	now    func() time.Time // of this process
	offset atomic.Int64     // nanoseconds by which Redis is ahead of this process
}

// time returns the estimated time of Redis.
func (c *redisClock) time() time.Time { return c.now().Add(time.Duration(c.offset.Load())) }

// expiryMargin is a safety margin: a charge expires this long before its caller stops waiting. It covers the way back of the
// reply and the error of the clock.
const expiryMargin = 50 * time.Millisecond

// deadline returns when a script that is sent now, and waited for until ctx ends, expires: in microseconds since 1970 by the
// clock of Redis. If Redis was frozen and runs the script only later, the charge has been made locally by then, and the
// script must do nothing.
func (c *redisClock) deadline(ctx context.Context) int64 {
	end, _ := ctx.Deadline()
	return c.time().Add(time.Until(end) - expiryMargin).UnixMicro()
}

// read takes the time, with which each script's reply begins, and sets the clock by it. A reply that holds only the time means
// errExpired.
func (c *redisClock) read(reply []int64, sent time.Time) (now time.Time, remaining []int64, err error) {
	if len(reply) < 2 {
		return time.Time{}, nil, fmt.Errorf("reply of Redis has %d numbers and lacks the time", len(reply))
	}
	now = time.Unix(reply[0], reply[1]*int64(time.Microsecond))
	c.offset.Store(int64(now.Sub(sent)))
	if len(reply) == 2 {
		return now, nil, errExpired
	}
	return now, reply[2:], nil
}
