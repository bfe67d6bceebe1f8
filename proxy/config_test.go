package proxy

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/redistest"
)

// A server that cannot be made leaves no connection to Redis behind.
func TestFailedServerClosesItsCache(t *testing.T) {
	t.Parallel()
	client := redistest.Single(t).Client()
	w := newWorld(t)
	subscribed := func() int {
		channels, err := client.PubSubChannels(t.Context(), "*").Result()
		w.must(err)
		return len(channels)
	}
	config := w.server.config
	config.Registry = prometheus.NewRegistry()
	over(client)(&config)
	failure := errors.New("no reference")
	_, err := newServer(config, func(*Config) (*reference, error) {
		w.await(t, "the subscription", func() bool { return subscribed() > 0 })
		return nil, failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("the error is %v", err)
	}
	w.await(t, "the end of the subscription", func() bool { return subscribed() == 0 })
}
