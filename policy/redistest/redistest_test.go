package redistest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

func TestDataSurvivesStopButNotKill(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	client, ctx := server.Client(), t.Context()
	if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("a stopped server replied")
	}
	server.Start()
	if got, err := client.Get(ctx, "k").Result(); got != "v" || err != nil {
		t.Errorf("after Stop and Start: %q, %v", got, err)
	}
	server.Kill()
	server.Start()
	if err := client.Get(ctx, "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("after Kill and Start: %v, want no such key", err)
	}
}

func TestFrozenServerRepliesOnlyAfterThaw(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t, "--requirepass", "secret")
	client, err := redisconn.Open("redis://:secret@"+server.Addr(), 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	server.Freeze()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("a frozen server replied")
	}
	server.Thaw()
	if err := server.Client().Ping(t.Context()).Err(); err != nil {
		t.Errorf("a thawed server: %v", err)
	}
}

func TestClusterServesAllSlotsOnThreeMasters(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	client := cluster.Client()
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		if err := client.Set(t.Context(), key, key, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i, node := range cluster.Nodes {
		if n := node.Client().DBSize(t.Context()).Val(); n == 0 {
			t.Errorf("master %d has no keys", i)
		}
	}
}

func TestSentinelFindsItsMaster(t *testing.T) {
	t.Parallel()
	group := redistest.Sentinel(t)
	client := group.Client()
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := group.Nodes[0].Client().Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("the master has %q", got)
	}
}
