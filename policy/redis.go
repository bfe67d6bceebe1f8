package policy

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisTimeout bounds one step of a conversation with Redis. A Redis that needs longer is of no use on the way of a
// request, which has memory to fall back on.
const redisStepTimeout = 100 * time.Millisecond

// redisForms is how a Redis URL has to be.
const redisURLHelp = "write redis://HOST:6379, or rediss://:PASSWORD@HOST:6379 with TLS and a password"

// OpenRedis returns a client for a URL of one of go-redis' forms: redis:// or rediss:// for a single server, or unix:// for a
// socket; with master_name, and addr for further sentinels, for a Sentinel; with addr for the further nodes of a cluster. It
// does not connect yet. It never retries by itself, because a charge that was retried might be counted twice. Its errors hold
// no more of the URL than RedisAddress does.
func OpenRedis(address string) (redis.UniversalClient, error) {
	return openRedis(address, redisStepTimeout)
}

// RedisAddress returns what can be shown of a Redis URL: its scheme, host and port, or the path of a socket. A URL that may
// be meant otherwise than it reads is not shown at all, since any part of it may be of a password.
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

// parseRedis reads a URL that surely names where Redis is. go-redis takes others for Redis on this machine. No error quotes it.
func parseRedis(address string) (*url.URL, error) {
	parsed, err := url.Parse(address)
	_, rest, absolute := strings.Cut(address, "://")
	switch {
	case err != nil || !absolute || parsed.Opaque != "":
		return nil, errors.New("the Redis URL is not a URL: " + redisURLHelp)
	case parsed.Scheme != "redis" && parsed.Scheme != "rediss" && parsed.Scheme != "unix":
		return nil, errors.New("the Redis URL begins with neither redis:// nor rediss://: " + redisURLHelp)
	case strings.Count(rest, "@") > 1 || strings.Contains(rest, "@") && parsed.User == nil || parsed.Fragment != "":
		return nil, errors.New("the Redis URL has an @ or a # out of place: " + redisURLHelp + ", with special characters percent-encoded")
	case parsed.Scheme == "unix" && (parsed.Host != "" || parsed.Path == ""):
		return nil, errors.New("the Redis URL names no socket: write unix:///PATH, or unix://:PASSWORD@/PATH with a password")
	case parsed.Scheme != "unix" && parsed.Hostname() == "":
		return nil, errors.New("the Redis URL names no host: " + redisURLHelp)
	}
	return parsed, nil
}

// openRedis takes the longest that one step of a conversation may take.
func openRedis(address string, step time.Duration) (redis.UniversalClient, error) {
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
			o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
			client = redis.NewFailoverClient(o)
		}
	case query.Has("addr"):
		var o *redis.ClusterOptions
		if o, err = redis.ParseClusterURL(address); err == nil {
			o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = step, step, step, step
			o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
			client = redis.NewClusterClient(o)
		}
	default:
		var o *redis.Options
		if o, err = redis.ParseURL(address); err == nil {
			o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = step, step, step, step
			o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
			client = redis.NewClient(o)
		}
	}
	if err != nil {
		// The error of the library may quote what is secret.
		return nil, fmt.Errorf("the Redis URL %s has a path that is not the number of a database, or a parameter that is not known or "+
			"has a wrong value: %s; a database follows as /0, and a parameter as ?pool_size=50", RedisAddress(address), redisURLHelp)
	}
	return client, nil
}

// once is a command that is sent once. Without it, the client of a cluster sends a command again when the connection ends
// before the answer, whatever its options say, and a charge would count twice.
type noRetry struct{ redis.Cmder }

// NoRetry tells the client.
func (noRetry) NoRetry() bool { return true }

// onceClient is a client that sends each call of a script once.
type noRetryClient struct{ redis.UniversalClient }

// EvalSha calls a script that the server has.
func (c noRetryClient) EvalSha(ctx context.Context, hash string, keys []string, arguments ...any) *redis.Cmd {
	return c.call(ctx, "evalsha", hash, keys, arguments)
}

// Eval calls a script that is sent along.
func (c noRetryClient) Eval(ctx context.Context, script string, keys []string, arguments ...any) *redis.Cmd {
	return c.call(ctx, "eval", script, keys, arguments)
}

func (c noRetryClient) call(ctx context.Context, verb, script string, keys []string, arguments []any) *redis.Cmd {
	words := []any{verb, script, len(keys)}
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := redis.NewCmd(ctx, append(words, arguments...)...)
	cmd.SetFirstKeyPos(firstKey)
	_ = c.Process(ctx, noRetry{cmd}) // the command holds the error
	return cmd
}

func (c noRetryClient) isCluster() bool {
	_, ok := c.UniversalClient.(*redis.ClusterClient)
	return ok
}
