package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/settings"
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
func openCounters(ctx context.Context, location settings.Redis, replicas int, store *sqlstore.Store, log *slog.Logger,
	registry prometheus.Registerer, now func() time.Time) (counters, error) {
	client, err := location.Open()
	if err != nil {
		return counters{}, err
	}
	if client == nil {
		log.WarnContext(ctx, cmp.Or(aloneNote(location, replicas), "without SARA_REDIS_URL, requests are counted in memory: for one process only"))
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

// aloneNote warns of several processes that cannot share their counts. It is empty if there is nothing to warn of.
func aloneNote(location settings.Redis, replicas int) string {
	if location.IsSet() || replicas < 2 {
		return ""
	}
	return "SARA_REPLICAS is " + strconv.Itoa(replicas) + ", but without SARA_REDIS_URL each process counts for itself and grants all of " +
		"every limit: set SARA_REDIS_URL, the same for all of them, or SARA_REPLICAS to 1"
}
