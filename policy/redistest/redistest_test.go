package redistest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redistest"
)

func TestDataSurviveStopAndNotKill(t *testing.T) {
	server := redistest.Single(t)
	client, ctx := server.Client(), t.Context()
	if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("a stopped server answers")
	}
	server.Start()
	if got, err := client.Get(ctx, "k").Result(); got != "v" || err != nil {
		t.Errorf("after Stop and Start: %q, %v", got, err)
	}
	server.Kill()
	server.Start()
	if err := client.Get(ctx, "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("after Kill and Start: %v, want nothing there", err)
	}
}

func TestAFrozenServerAnswersOnlyWhenItIsThawed(t *testing.T) {
	server := redistest.Single(t, "--requirepass", "secret")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "secret", ReadTimeout: 50 * time.Millisecond, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	server.Freeze()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("a frozen server answers")
	}
	server.Thaw()
	if err := server.Client().Ping(t.Context()).Err(); err != nil {
		t.Errorf("a thawed server: %v", err)
	}
}

func TestAClusterServesAllSlotsOnThreeMasters(t *testing.T) {
	cluster := redistest.Cluster(t)
	options, err := redis.ParseClusterURL(cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(options)
	defer func() { _ = client.Close() }()
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		if err := client.Set(t.Context(), key, key, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i, node := range cluster.Nodes {
		if n := node.Client().DBSize(t.Context()).Val(); n == 0 {
			t.Errorf("master %d has none of the keys", i)
		}
	}
}

func TestASentinelKnowsItsMaster(t *testing.T) {
	group := redistest.Sentinel(t)
	options, err := redis.ParseFailoverURL(group.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewFailoverClient(options)
	defer func() { _ = client.Close() }()
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := group.Nodes[0].Client().Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("the master has %q", got)
	}
}
