package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"sara/cmd/sara/internal/settings"
	"sara/policy"
	"sara/policy/redisconn"
	"sara/proxy"
	"sara/proxy/cache"
	"sara/proxy/redisrows"
)

// watchInterval is how often an outage of the Redis of rows is looked for while there is one.
const watchInterval = time.Second

// redisClients are the clients of the counters and of the rows: one, unless the settings separate them.
type redisClients struct{ counters, rows redisconn.Client }

func openRedis(counters settings.Redis, rows settings.SharedRows) (clients redisClients, err error) {
	if clients.counters, err = counters.Open(redisconn.StepTimeout); err != nil {
		return clients, err
	}
	clients.rows = clients.counters
	if location, separate := rows.Location(counters); separate {
		if clients.rows, err = location.Open(redisconn.StepTimeout); err != nil {
			return clients, errors.Join(err, clients.counters.Close())
		}
	}
	return clients, nil
}

func (c redisClients) close() error {
	if c.rows == c.counters {
		return c.counters.Close()
	}
	return errors.Join(c.rows.Close(), c.counters.Close())
}

// openRedisBudgets returns budgets in Redis, and watches the memory that cached rows take there.
func openRedisBudgets(ctx context.Context, c BudgetConfig) (Budgets, error) {
	clients, err := openRedis(c.Location, c.Rows)
	if err != nil {
		return Budgets{}, err
	}
	rows, err := redisrows.New(redisrows.Config{
		Rows: clients.rows, Counters: clients.counters, Bytes: c.RowBytes, Lifetime: cache.MaxStale,
		Now: c.Now, Log: c.Log, Registry: c.Registry,
	})
	if err != nil {
		return Budgets{}, errors.Join(err, clients.close())
	}
	shared := policy.NewRedisBudget(policy.RedisBudgetConfig{
		Client: clients.counters, Replicas: c.Replicas, Now: c.Now, Log: c.Log, Registry: c.Registry, Store: c.Store,
		Relieve: func(ctx context.Context) { _ = rows.Relieve(ctx) }, // if it fails, the budgets notice
	})
	if err := shared.Load(ctx); err != nil {
		c.Log.WarnContext(ctx, "if Redis goes down, this replica's share ignores what was admitted before it started", slog.Any("error", err))
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { rows.Watch(watching, time.Tick(watchInterval)) })
	return Budgets{
		Budget:       shared,
		Degraded:     shared.Degraded,
		Degradations: []proxy.Degradation{{Reason: "lost_counts", Active: func() string { return strings.Join(shared.Notes(), "; ") }}},
		Redis:        clients.counters,
		Rows:         rows,
		Invalidations: func(ctx context.Context, listener policy.Listener) {
			policy.ListenInvalidations(ctx, clients.counters, listener)
		},
		Close: func() {
			stop()
			done.Wait()
			shared.Close()
			if err := clients.close(); err != nil {
				c.Log.Warn("closing the connections to Redis failed", slog.Any("error", err))
			}
		},
	}, nil
}
