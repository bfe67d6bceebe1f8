package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
)

// keysPerUpdate bounds the keys of one statement.
const keysPerUpdate = 1000

// RecordKeyUses records when keys were last used, by key ID. It keeps a later use recorded by another process, and ignores keys
// that no longer exist. The Edition stays the same, because nothing that is served changes.
func (s *Store) RecordKeyUses(ctx context.Context, uses map[string]time.Time) (err error) {
	defer wrap(&err, "record the last use of %s", english.Plural(len(uses), "key", ""))
	byHour := make(map[int64][]string)
	for id, at := range uses {
		byHour[at.UnixMilli()] = append(byHour[at.UnixMilli()], id)
	}
	return s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.lockKeys(ctx, tx, slices.Sorted(maps.Keys(uses))); err != nil {
			return err
		}
		for hour, ids := range byHour {
			slices.Sort(ids)
			for some := range slices.Chunk(ids, keysPerUpdate) {
				condition, list, err := s.dialect.isOneOfTexts(some)
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, "UPDATE api_keys SET last_used_at = $2 WHERE id "+condition+" AND (last_used_at IS NULL OR last_used_at < $2)",
					list, hour); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// lockKeys locks keys in the order of their IDs, as revocations and removals do: an update locks them in any order, and could deadlock.
// SQLite has one writer at a time.
func (s *Store) lockKeys(ctx context.Context, tx *sql.Tx, ids []string) error {
	if s.dialect != postgresDialect {
		return nil
	}
	for some := range slices.Chunk(ids, keysPerUpdate) {
		condition, list, err := s.dialect.isOneOfTexts(some)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "SELECT 1 FROM api_keys WHERE id "+condition+" ORDER BY id FOR NO KEY UPDATE", list); err != nil {
			return fmt.Errorf("lock the keys: %w", err)
		}
	}
	return nil
}

// isOneOfTexts returns a condition on $1, and its argument.
func (d dialect) isOneOfTexts(texts []string) (condition string, list any, err error) {
	if d == postgresDialect {
		return "= ANY($1::text[])", texts, nil
	}
	encoded, err := json.Marshal(texts)
	return "IN (SELECT value FROM json_each($1))", string(encoded), err
}
