package redisconn

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// IsCluster reports whether keys are on different servers. Inlined, it would bring the types of go-redis to its callers.
//
//go:noinline
func IsCluster(c Client) bool {
	_, ok := c.(*redis.ClusterClient)
	return ok
}

// EachMaster calls do for the server, or concurrently for each master of a cluster.
func EachMaster(ctx context.Context, c Client, do func(ctx context.Context, node redis.Cmdable) error) error {
	cluster, ok := c.(*redis.ClusterClient)
	if !ok {
		return do(ctx, c)
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
}
