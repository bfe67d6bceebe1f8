package policy

import (
	"context"
	"testing"
	"time"

	"sara/policy/redistest"
)

// patience bounds waits for events, and the timeouts of tests without an outage, generously for a busy machine.
const patience = 20 * time.Second

// listenTo runs ListenInvalidations until the test ends, and sends a token for each change.
func listenTo(t *testing.T, url string) <-chan struct{} {
	t.Helper()
	client, err := OpenRedis(url)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	calls, ended := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(ended)
		ListenInvalidations(ctx, client, func() { calls <- struct{}{} })
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		_ = client.Close()
	})
	return calls
}

func wantCall(t *testing.T, calls <-chan struct{}, when string) {
	t.Helper()
	select {
	case <-calls:
	case <-time.After(patience):
		t.Fatalf("no invalidation %s", when)
	}
}

func publish(t *testing.T, url string) error {
	t.Helper()
	client, err := OpenRedis(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	return PublishInvalidation(t.Context(), client)
}

// testInvalidations checks that two replicas hear of a change, and returns what they hear.
func testInvalidations(t *testing.T, url string) []<-chan struct{} {
	t.Helper()
	replicas := []<-chan struct{}{listenTo(t, url), listenTo(t, url)}
	for _, calls := range replicas {
		wantCall(t, calls, "after subscribing")
	}
	if err := publish(t, url); err != nil {
		t.Fatal(err)
	}
	for _, calls := range replicas {
		wantCall(t, calls, "after a change")
	}
	return replicas
}

func TestInvalidationsSurviveARestart(t *testing.T) {
	server := redistest.Single(t)
	replicas := testInvalidations(t, server.URL())
	server.Kill()
	if err := publish(t, server.URL()); err == nil {
		t.Error("publishing without Redis returned no error")
	}
	server.Start()
	for _, calls := range replicas {
		wantCall(t, calls, "after the restart")
	}
	if err := publish(t, server.URL()); err != nil {
		t.Fatal(err)
	}
	for _, calls := range replicas {
		wantCall(t, calls, "after a change that followed the restart")
	}
}

func TestListenInvalidationsStartsBeforeRedis(t *testing.T) {
	server := redistest.Single(t)
	server.Kill()
	calls := listenTo(t, server.URL())
	server.Start()
	wantCall(t, calls, "once Redis was up")
}
