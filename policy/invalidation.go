package policy

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// noticeChannel is where replicas tell each other that keys, people, plans or properties have changed.
const invalidationChannel = "sara:changed"

// PublishInvalidation tells every replica that listens that something has changed. It does not wait for them.
func PublishInvalidation(ctx context.Context, client redis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := client.Publish(ctx, invalidationChannel, "").Err(); err != nil {
		return fmt.Errorf("announce a change to the other replicas: %w", err)
	}
	return nil
}

// announceTimeout is longer than that of a request, which has a memory to fall back on: nobody hears what is lost here.
const publishTimeout = redisStepTimeout * 5

// ListenInvalidations calls changed for every change that is announced, and whenever it has begun to listen, the first time and after
// Redis was away, since what was announced before was missed. It returns when ctx ends. Redis need not answer yet.
func ListenInvalidations(ctx context.Context, client redis.UniversalClient, changed func()) {
	subscription := client.Subscribe(ctx, invalidationChannel)
	defer func() { _ = subscription.Close() }()
	notices := subscription.ChannelWithSubscriptions() // tells when it was subscribed, too
	for {
		select {
		case <-notices:
			changed()
		case <-ctx.Done():
			return
		}
	}
}
