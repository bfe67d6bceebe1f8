package redisconn

import (
	"context"
	"iter"

	"github.com/redis/go-redis/v9"
)

// An Event is a message, or the confirmation of the subscription.
type Event struct {
	Payload    string // of the message
	Subscribed bool   // Redis has confirmed the subscription, the first one or one after a lost connection: messages before it were missed
}

// Subscribe subscribes to a pub/sub channel, and returns its events, which the caller has to read. They end with ctx, with the client or
// with the caller's loop, and the subscription with them. If Redis is down or the connection is lost, the client subscribes again.
func Subscribe(ctx context.Context, c Client, channel string) iter.Seq[Event] {
	subscriber, ok := c.(interface {
		Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	})
	if !ok {
		panic("BUG: the client is not of Open")
	}
	subscription := subscriber.Subscribe(ctx, channel)
	return func(yield func(Event) bool) {
		defer func() { _ = subscription.Close() }() // the connection is gone, with or without an error
		events := subscription.ChannelWithSubscriptions()
		for {
			select {
			case event, open := <-events:
				if !open { // the client is closed
					return
				}
				message, isMessage := event.(*redis.Message)
				e := Event{Subscribed: !isMessage}
				if isMessage {
					e.Payload = message.Payload
				}
				if !yield(e) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}
