package policy

import (
	"bytes"
	"context"
	"testing"
	"time"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

// patience bounds waits for events, and the timeouts of tests without an outage, generously for a busy machine.
const patience = 20 * time.Second

// A heard is what a test's listener hears.
type heard chan string

func (h heard) Invalidate() { h <- "invalidate" }
func (h heard) Revalidate() { h <- "revalidate" }

// listenTo runs ListenInvalidations until the test ends.
func listenTo(t *testing.T, url string) heard {
	t.Helper()
	client, err := redisconn.Open(url, patience)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	calls, ended := make(heard, 100), make(chan struct{})
	go func() {
		defer close(ended)
		ListenInvalidations(ctx, client, calls)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		_ = client.Close()
	})
	return calls
}

func wantCall(t *testing.T, calls heard, call, when string) {
	t.Helper()
	select {
	case got := <-calls:
		if got != call {
			t.Errorf("%s %s, want %s", got, when, call)
		}
	case <-time.After(patience):
		t.Fatalf("no %s %s", call, when)
	}
}

func publish(t *testing.T, url string) error {
	t.Helper()
	client, err := redisconn.Open(url, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	return PublishInvalidation(t.Context(), client)
}

// testInvalidations checks that two replicas hear of a change, and returns what they hear.
func testInvalidations(t *testing.T, url string) []heard {
	t.Helper()
	replicas := []heard{listenTo(t, url), listenTo(t, url)}
	for _, calls := range replicas {
		wantCall(t, calls, "revalidate", "after subscribing")
	}
	if err := publish(t, url); err != nil {
		t.Fatal(err)
	}
	for _, calls := range replicas {
		wantCall(t, calls, "invalidate", "after a change")
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
		wantCall(t, calls, "revalidate", "after the restart")
	}
	if err := publish(t, server.URL()); err != nil {
		t.Fatal(err)
	}
	for _, calls := range replicas {
		wantCall(t, calls, "invalidate", "after a change that followed the restart")
	}
}

func TestListenInvalidationsStartsBeforeRedis(t *testing.T) {
	server := redistest.Single(t)
	server.Kill()
	calls := listenTo(t, server.URL())
	server.Start()
	wantCall(t, calls, "revalidate", "once Redis was up")
}

// A message of another program makes replicas drop what they know, and ask the directory again, as a change does. Its content does not
// matter, and what comes on other channels is not heard.
func TestForeignMessagesOnlyInvalidate(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	calls, control := listenTo(t, server.URL()), server.Client()
	wantCall(t, calls, "revalidate", "after subscribing")
	for _, message := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte{0xff}, 1<<20)} {
		control.Publish(t.Context(), "sara:other", message)
		control.Publish(t.Context(), invalidationChannel, message)
		wantCall(t, calls, "invalidate", "after a message")
	}
	control.HSet(t.Context(), changeKey, "another", "type") // instead of the id of the last change
	if err := publish(t, server.URL()); err != nil {
		t.Errorf("publish a change: %v", err)
	}
	wantCall(t, calls, "invalidate", "after a change")
	if n := len(calls); n > 0 {
		t.Errorf("%d more calls", n)
	}
}

// What is cached may be outdated when the subscription is back. So the next request waits for the directory, also if the last call failed.
func TestRevalidatedGateAsksBeforeItUsesWhatIsCached(t *testing.T) {
	for name, failure := range map[string]error{"in use": nil, "after a failure": errDirectoryDown} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			wantCode(t, "", nil)(w.admit(t.Context()))
			w.clock.advance(time.Second)
			w.directory.fail(failure)
			wantCode(t, "", nil)(w.admit(t.Context()))
			w.directory.fail(nil)
			w.edit(revoke)
			w.clock.advance(refreshPatience)
			w.Revalidate()
			wantCode(t, CodeRevokedKey, nil)(w.admit(t.Context()))
		})
	}
}

func TestRevalidatedGateUsesWhatIsCachedWhileTheDirectoryFails(t *testing.T) {
	w := newFixture(t)
	wantCode(t, "", nil)(w.admit(t.Context()))
	w.directory.fail(errDirectoryDown)
	w.Revalidate()
	wantCode(t, "", nil)(w.admit(t.Context()))
}
