package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"sara/bench/internal/testbed"
	"sara/policy/redisconn"
)

// A setup is what sara depends on.
type setup struct {
	group  testbed.Group // of the Redis servers
	pooler bool          // PgBouncer in transaction mode stands in front of PostgreSQL
}

func (s setup) String() string {
	name := "single servers"
	if s.group != "" {
		name = "Redis by " + string(s.group)
	}
	if s.pooler {
		name = "PostgreSQL by PgBouncer"
	}
	return name
}

func setupFaults() []fault {
	sentinel, cluster, pooled := setup{group: testbed.Sentinel}, setup{group: testbed.Cluster}, setup{pooler: true}
	fail := func(find func(context.Context, *world) (*testbed.Redis, error), signal syscall.Signal) func(context.Context, *world) error {
		return func(ctx context.Context, w *world) error {
			node, err := find(ctx, w)
			if err != nil {
				return err
			}
			w.failed = node
			return syscall.Kill(node.PID, signal)
		}
	}
	restart := func(_ context.Context, w *world) error {
		_ = w.StopRedis(w.failed) // it was killed
		return w.StartRedis(w.failed)
	}
	resume := func(_ context.Context, w *world) error { return syscall.Kill(w.failed.PID, syscall.SIGCONT) }
	const failover = 6 * time.Second
	return []fault{
		{name: "Sentinel: the master is killed", setup: sentinel, hold: failover, loses: allNotice,
			begin: fail(sentinelMaster, syscall.SIGKILL), end: restart},
		{name: "Sentinel: the master is paused", setup: sentinel, hold: failover, loses: allNotice,
			begin: fail(sentinelMaster, syscall.SIGSTOP), end: resume},
		{name: "Cluster: a master is killed", setup: cluster, hold: failover, loses: allNotice,
			begin: fail(clusterMaster(0), syscall.SIGKILL), end: restart},
		{name: "Cluster: a master is paused", setup: cluster, hold: failover, loses: allNotice,
			begin: fail(clusterMaster(1), syscall.SIGSTOP), end: resume},
		{name: "PgBouncer: none", setup: pooled, begin: nothing},
		{name: "PgBouncer restarts", setup: pooled, begin: func(_ context.Context, w *world) error { return w.StopPooler() },
			end: func(_ context.Context, w *world) error { return w.StartPooler() }},
		{name: "PgBouncer: PostgreSQL restarts", setup: pooled, begin: func(_ context.Context, w *world) error { return w.RestartPostgres() }},
		{name: "PgBouncer: the replicas restart in turn", setup: pooled, begin: func(_ context.Context, w *world) error { return w.restartAll() }},
	}
}

// sentinelMaster returns the master as the sentinel sees it.
func sentinelMaster(ctx context.Context, w *world) (*testbed.Redis, error) {
	client, err := redisconn.Open("redis://"+w.Monitor.Address, redisTimeout)
	if err != nil {
		return nil, err
	}
	address, err := client.Do(ctx, "sentinel", "get-master-addr-by-name", testbed.MasterName).StringSlice()
	if err := errors.Join(err, client.Close()); err != nil {
		return nil, err
	}
	for _, node := range w.Nodes {
		if node.Address == net.JoinHostPort(address[0], address[1]) {
			return node, nil
		}
	}
	return nil, fmt.Errorf("the sentinel's master %v is not a server of the testbed", address)
}

// clusterMaster returns one of the cluster's first masters. Each fault takes a different one, because one that has failed becomes a replica.
func clusterMaster(n int) func(context.Context, *world) (*testbed.Redis, error) {
	return func(_ context.Context, w *world) (*testbed.Redis, error) { return w.Nodes[n], nil }
}
