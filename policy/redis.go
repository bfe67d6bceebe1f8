package policy

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisTimeout bounds one step of a conversation with Redis. A Redis that needs longer is of no use on the way of a
// request, which has memory to fall back on.
const redisTimeout = 100 * time.Millisecond

// OpenRedis returns a client for a URL of one of go-redis' forms: redis:// or rediss:// for a single server; with
// master_name, and addr for further sentinels, for a Sentinel; with addr for the further nodes of a cluster. It does not
// connect yet. It never retries by itself, because a charge that was retried might be counted twice.
func OpenRedis(address string) (redis.UniversalClient, error) {
	return openRedis(address, redisTimeout)
}

// openRedis takes the longest that one step of a conversation may take.
func openRedis(address string, step time.Duration) (redis.UniversalClient, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		// The error of the parser quotes the address, which may hold a password.
		return nil, errors.New("the Redis URL is not a URL: write redis://[user:password@]host:port[/database]")
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
		return nil, fmt.Errorf("the Redis URL %s: %w", parsed.Redacted(), err)
	}
	return client, nil
}

// once is a command that is sent once. Without it, the client of a cluster sends a command again when the connection ends
// before the answer, whatever its options say, and a charge would count twice.
type once struct{ redis.Cmder }

// NoRetry tells the client.
func (once) NoRetry() bool { return true }

// onceClient is a client that sends each call of a script once.
type onceClient struct{ redis.UniversalClient }

// EvalSha calls a script that the server has.
func (c onceClient) EvalSha(ctx context.Context, hash string, keys []string, arguments ...any) *redis.Cmd {
	return c.call(ctx, "evalsha", hash, keys, arguments)
}

// Eval calls a script that is sent along.
func (c onceClient) Eval(ctx context.Context, script string, keys []string, arguments ...any) *redis.Cmd {
	return c.call(ctx, "eval", script, keys, arguments)
}

func (c onceClient) call(ctx context.Context, verb, script string, keys []string, arguments []any) *redis.Cmd {
	words := []any{verb, script, len(keys)}
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := redis.NewCmd(ctx, append(words, arguments...)...)
	cmd.SetFirstKeyPos(firstKey)
	_ = c.Process(ctx, once{cmd}) // the command holds the error
	return cmd
}

func (c onceClient) isCluster() bool {
	_, ok := c.UniversalClient.(*redis.ClusterClient)
	return ok
}
