package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sara/archive/sqlstore"
	"sara/policy"
)

// counters is what counts requests and upstream calls for a server, and what keeps it company.
type counters struct {
	budget   policy.Budget
	degraded func() bool           // nil if it never is
	changes  changes               // nil if there is nobody to hear from: then the server finds out within a second
	redis    redis.UniversalClient // for what else replicas share; nil for one that is alone
	close    func()
}

// changes calls changed whenever another process has changed something that the server may remember, until ctx ends.
type changes func(ctx context.Context, changed func())

// counters returns what the settings say: counted in Redis, or in memory for one process. The caller closes it once nobody
// uses it any more, and before the store.
func (s storeSettings) counters(ctx context.Context, store *sqlstore.Store, replicas int, log *slog.Logger,
	registry prometheus.Registerer, now func() time.Time) (counters, error) {
	client, err := s.redis()
	if err != nil {
		return counters{}, err
	}
	if client == nil {
		log.WarnContext(ctx, cmp.Or(s.aloneNote(replicas), "without SARA_REDIS_URL, requests are counted in memory: for one process only"))
		return localCounters(ctx, store, log, now)
	}
	shared, err := policy.NewRedisBudget(policy.RedisBudgetConfig{Client: client, Replicas: replicas, Now: now, Log: log, Registry: registry})
	if err != nil {
		return counters{}, errors.Join(err, client.Close())
	}
	return counters{
		budget:   shared,
		degraded: shared.Degraded,
		redis:    client,
		changes:  func(ctx context.Context, changed func()) { policy.ListenInvalidations(ctx, client, changed) },
		close: func() {
			shared.Close()
			if err := client.Close(); err != nil {
				log.Warn("close the connections to Redis", slog.Any("error", err))
			}
		},
	}, nil
}

// localCounters counts in memory, and keeps the counts in the store so that a restart gives no allowance out again.
func localCounters(ctx context.Context, store *sqlstore.Store, log *slog.Logger, now func() time.Time) (counters, error) {
	const saveEvery = time.Second
	local := policy.NewMemoryBudget(now)
	if err := local.Load(ctx, store); err != nil {
		return counters{}, err
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var kept sync.WaitGroup
	kept.Go(func() {
		local.Persist(keeping, store, time.Tick(saveEvery), func(err error) {
			log.Error("the usage of today would be lost in a restart", slog.Any("error", err))
		})
	})
	return counters{
		budget: local,
		close: func() {
			stop()
			kept.Wait()
		},
	}, nil
}

// redis returns a client for the Redis of the settings, nil when there is none. The caller closes it.
func (s storeSettings) redis() (redis.UniversalClient, error) {
	if s.RedisURL == "" {
		return nil, nil
	}
	client, err := policy.OpenRedis(s.RedisURL)
	if err != nil {
		return nil, wrongSetting("SARA_REDIS_URL", "%v", err)
	}
	return client, nil
}

// announce tells the servers that something was changed, so that they need not find out by themselves.
func (s storeSettings) announce(ctx context.Context) error {
	client, err := s.redis()
	if client == nil || err != nil {
		return err
	}
	// Who does not hear it, because Redis is away, asks the database again within a second anyway.
	_ = policy.PublishInvalidation(ctx, client)
	return client.Close()
}
