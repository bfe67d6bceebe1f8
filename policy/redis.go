package policy

import (
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
	parsed, err := url.Parse(address)
	if err != nil {
		// The error of the parser quotes the address, which may hold a password.
		return nil, errors.New("the Redis URL is not a URL: write redis://[user:password@]host:port[/database]")
	}
	query := parsed.Query()
	switch {
	case query.Get("master_name") != "":
		o, err := redis.ParseFailoverURL(address)
		if err != nil {
			return nil, redisURLError(parsed, err)
		}
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = redisTimeout, redisTimeout, redisTimeout, redisTimeout
		o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
		return redis.NewFailoverClient(o), nil
	case query.Has("addr"):
		o, err := redis.ParseClusterURL(address)
		if err != nil {
			return nil, redisURLError(parsed, err)
		}
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = redisTimeout, redisTimeout, redisTimeout, redisTimeout
		o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
		return redis.NewClusterClient(o), nil
	}
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, redisURLError(parsed, err)
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = redisTimeout, redisTimeout, redisTimeout, redisTimeout
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	return redis.NewClient(o), nil
}

// redisURLError names the URL without its password.
func redisURLError(address *url.URL, err error) error {
	return fmt.Errorf("the Redis URL %s: %w", address.Redacted(), err)
}
