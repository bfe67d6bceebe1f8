package policy

import (
	"context"
	"testing"
	"time"

	"sara/policy/redistest"
)

// patience is how long a test waits for what has to happen.
const patience = 20 * time.Second

// listen starts to listen and returns a token for each call.
func listen(t *testing.T, url string) <-chan struct{} {
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
		t.Fatalf("nothing was heard %s", when)
	}
}

func announce(t *testing.T, url string) error {
	t.Helper()
	client, err := OpenRedis(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	return PublishInvalidation(t.Context(), client)
}

func testNotices(t *testing.T, url string) []<-chan struct{} {
	t.Helper()
	replicas := []<-chan struct{}{listen(t, url), listen(t, url)}
	for _, calls := range replicas {
		wantCall(t, calls, "when it began to listen")
	}
	if err := announce(t, url); err != nil {
		t.Fatal(err)
	}
	for _, calls := range replicas {
		wantCall(t, calls, "of a change")
	}
	return replicas
}

func TestAChangeIsHeardByEveryReplica(t *testing.T) {
	t.Run("cluster", func(t *testing.T) { testNotices(t, redistest.Cluster(t).URL()) })
	t.Run("single, and again after a restart", func(t *testing.T) {
		server := redistest.Single(t)
		replicas := testNotices(t, server.URL())
		server.Kill()
		if err := announce(t, server.URL()); err == nil {
			t.Error("a change was announced to nobody without an error")
		}
		server.Start()
		for _, calls := range replicas {
			wantCall(t, calls, "after the restart, of what was missed")
		}
		if err := announce(t, server.URL()); err != nil {
			t.Fatal(err)
		}
		for _, calls := range replicas {
			wantCall(t, calls, "of a change after the restart")
		}
	})
	t.Run("begun before Redis is there", func(t *testing.T) {
		server := redistest.Single(t)
		server.Kill()
		calls := listen(t, server.URL())
		server.Start()
		wantCall(t, calls, "when Redis was there")
	})
}
