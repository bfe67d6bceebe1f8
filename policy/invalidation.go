package policy

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// invalidationChannel is the pub/sub channel for changes of keys, people, plans and properties.
const invalidationChannel = "sara:changed"

// publishTimeout is longer than a request's timeout, because no request waits for it and a lost message is not repeated.
const publishTimeout = redisStepTimeout * 5

// PublishInvalidation notifies all listening replicas over pub/sub that the directory has changed. It does not wait for them.
func PublishInvalidation(ctx context.Context, client redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := client.Publish(ctx, invalidationChannel, "").Err(); err != nil {
		return fmt.Errorf("publish the invalidation: %w", err)
	}
	return nil
}

// ListenInvalidations subscribes to the changes that PublishInvalidation publishes, and calls changed for each. It also calls
// changed after every subscription, the first one and those after a lost connection, because messages before it were missed.
// Redis may still be down. It returns when ctx ends.
func ListenInvalidations(ctx context.Context, client redis.UniversalClient, changed func()) {
	subscription := client.Subscribe(ctx, invalidationChannel)
	defer func() { _ = subscription.Close() }()
	messages := subscription.ChannelWithSubscriptions() // has messages and confirmed subscriptions
	for {
		select {
		case <-messages:
			changed()
		case <-ctx.Done():
			return
		}
	}
}
