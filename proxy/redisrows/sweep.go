package redisrows

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

const (
	// rowPattern matches the keys of rows and of leases, but none of the index.
	rowPattern  = "sara:c:{*"
	leaseSuffix = ":lease"

	sweepTimeout = 30 * time.Second
	sweepCount   = 1000 // keys that one step of the search visits
)

// sweepIfFull deletes the rows that the index does not know, on servers that are full although it has no rows there: those of a
// lost index, and those that replicas with other settings have left on the counters' server.
func (s *Store) sweepIfFull(ctx context.Context, seen servers) error {
	now := s.config.Now()
	if now.Before(s.nextSweep) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	var err error
	empty := s.bound.Load() == 0 // so the index has no rows
	if empty && isFull(seen.rows) {
		s.nextSweep = now.Add(sweepInterval)
		err = s.sweep(ctx, s.config.Rows)
	}
	if err == nil && s.Separate() && (empty || !s.together(seen)) && isFull(seen.counters) {
		s.nextSweep = now.Add(sweepInterval)
		err = s.sweep(ctx, s.config.Counters)
	}
	return err
}

// sweep deletes all rows on the servers of a client.
func (s *Store) sweep(ctx context.Context, client redisconn.Client) error {
	return redisconn.EachMaster(ctx, client, func(ctx context.Context, node redis.Cmdable) error {
		deleted := 0
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, rowPattern, sweepCount).Result()
			if err != nil {
				return err
			}
			var found []string
			for _, key := range keys {
				if !strings.HasSuffix(key, leaseSuffix) {
					found = append(found, key)
				}
			}
			if err := s.unlink(ctx, node, found); err != nil {
				return err
			}
			deleted += len(found)
			if cursor = next; cursor == 0 {
				break
			}
		}
		if deleted > 0 {
			s.config.Log.WarnContext(ctx, "Redis was nearly full: cached rows that were not in their index are deleted", slog.Int("rows", deleted))
		}
		return nil
	})
}
