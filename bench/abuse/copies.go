package main

import (
	"context"
	"fmt"

	"github.com/valyala/fasthttp"
)

// littleMemory is the cache of a replica that has to read most copies from Redis.
func littleMemory(*world) ([]string, error) {
	const bytes = 16 << 20
	return []string{fmt.Sprintf("SARA_CACHE_BYTES=%d", bytes)}, nil
}

// copies has one account read long copies from Redis as fast as it can. Another replica has written them, and together they are larger
// than this one's memory. Budgets and the quiet tenants' short copies are in the same Redis.
func copies(ctx context.Context, s *stage) error {
	const writers, readers = 4, 64
	tables := make([]string, s.longCopies)
	for i := range tables {
		tables[i] = s.property(s.flooder, 0) + "/pages?limit=10&order_by=-impressions&" + s.days()
	}
	ask := func(n int) *fasthttp.Request { return get(tables[n%len(tables)], s.Keys[s.flooder][0]) }
	writer, err := s.start()
	if err != nil {
		return err
	}
	filled := &stage{world: s.world, replica: writer, tally: newTally()}
	filled.sendAll(ctx, writers, len(tables), ask)
	if _, err := s.StopReplica(writer); err != nil {
		return err
	}
	if n := filled.tally.count("200"); n < len(tables) && ctx.Err() == nil {
		return fmt.Errorf("write %d copies: %v", len(tables), filled.tally)
	}
	watched, stop := s.watchDegraded(ctx)
	s.sendAll(ctx, readers, s.copyReads, ask)
	stop()
	metrics, err := s.metrics(ctx, s.replica)
	if err != nil {
		return err
	}
	s.note("%g steps with Redis failed", metrics["sara_cache_redis_errors_total"])
	if degraded := <-watched; degraded > 0 && s.timed {
		s.problem("budgets were counted locally in %d readings", degraded)
	}
	if missed := s.copyReads - s.tally.count("200 hit"); missed > 0 && s.timed && ctx.Err() == nil {
		s.problem("%d of %d requests were not answered from a copy", missed, s.copyReads)
	}
	return nil
}
