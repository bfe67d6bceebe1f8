package policy

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

// invalidationChannel is the pub/sub channel for changes of keys, people, plans and properties. changeKey is the Redis key of a
// random id, which every published change replaces: a replica that missed the message sees another one. A counter would not do,
// since Redis may lose it and count the same numbers again.
const (
	invalidationChannel = "sara:changed"
	changeKey           = "sara:change"
)

// PublishInvalidation notifies all listening replicas over pub/sub that the directory has changed. It does not wait for them, and
// for Redis no longer than the timeouts of the client.
func PublishInvalidation(ctx context.Context, client redisconn.Client) error {
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, changeKey, rand.Text(), 0)
		pipe.Publish(ctx, invalidationChannel, "")
		return nil
	})
	if err != nil {
		return fmt.Errorf("publish the invalidation: %w", err)
	}
	return nil
}

// lastChange returns the id of the last published change; empty if there is none, or Redis has lost it.
func lastChange(ctx context.Context, client redisconn.Client) (string, error) {
	change, err := client.Get(ctx, changeKey).Result()
	return change, ignoreMissing(err)
}

// beginChanges makes an id if there is none, so that the next change differs from it. It returns "" if a change came first.
func beginChanges(ctx context.Context, client redisconn.Client) (string, error) {
	change := rand.Text()
	if made, err := client.SetNX(ctx, changeKey, change, 0).Result(); err != nil || !made {
		return "", err
	}
	return change, nil
}

// A Listener caches the directory.
type Listener interface {
	// Invalidate drops everything that is cached, because the directory has changed.
	Invalidate()
	// Revalidate asks the directory whether it has changed before anything that is cached is used again.
	Revalidate()
}

// ListenInvalidations subscribes to the changes that PublishInvalidation publishes, and invalidates the listener for each. After
// every subscription, the first one and those after a lost connection, it revalidates it, because messages before it were missed.
// Redis may still be down. It returns when ctx ends, or the client is closed.
func ListenInvalidations(ctx context.Context, client redisconn.Client, listener Listener) {
	for event := range redisconn.Subscribe(ctx, client, invalidationChannel) {
		if event.Subscribed {
			listener.Revalidate()
		} else {
			listener.Invalidate()
		}
	}
}
