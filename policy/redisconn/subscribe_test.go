package redisconn_test

import (
	"context"
	"iter"
	"testing"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

func TestSubscriptionEndsWithItsClient(t *testing.T) {
	t.Parallel()
	client, err := redisconn.Open(redistest.Single(t).URL(), redisconn.StepTimeout)
	if err != nil {
		t.Fatal(err)
	}
	next, stop := iter.Pull(redisconn.Subscribe(t.Context(), client, "a"))
	defer stop()
	if event, ok := next(); !event.Subscribed || !ok {
		t.Fatalf("the event is %+v, %v", event, ok)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if got, ok := next(); ok {
		t.Errorf("after the end of its client: %+v", got)
	}
}

func TestSubscriptionHasTheMessagesOfItsChannelAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	client := redistest.Single(t).Client()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next, stop := iter.Pull(redisconn.Subscribe(ctx, client, "a"))
	defer stop()
	want := func(want redisconn.Event) {
		t.Helper()
		if got, ok := next(); got != want || !ok {
			t.Fatalf("the event is %+v, %v; want %+v", got, ok, want)
		}
	}
	want(redisconn.Event{Subscribed: true})
	for _, message := range [][2]string{{"b", "another"}, {"a", "first"}, {"a", ""}} {
		if err := client.Publish(ctx, message[0], message[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want(redisconn.Event{Payload: "first"})
	want(redisconn.Event{})
	cancel()
	if got, ok := next(); ok {
		t.Errorf("after the end of its context: %+v", got)
	}
	for subscribers := int64(1); subscribers > 0 && t.Context().Err() == nil; { // Redis notices the end of a connection by itself
		counts, err := client.PubSubNumSub(t.Context(), "a").Result()
		if err != nil {
			t.Fatal(err)
		}
		subscribers = counts["a"]
	}
}
