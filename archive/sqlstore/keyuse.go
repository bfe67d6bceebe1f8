package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// keysPerUpdate bounds the keys of one statement.
const keysPerUpdate = 1000

// RecordKeyUses records when keys were last used, by key ID. It keeps a later use recorded by another process, and ignores keys
// that no longer exist. The Edition stays the same, because nothing that is served changes.
func (s *Store) RecordKeyUses(ctx context.Context, uses map[string]time.Time) error {
	byHour := make(map[int64][]string)
	for id, at := range uses {
		byHour[at.UnixMilli()] = append(byHour[at.UnixMilli()], id)
	}
	err := s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// Processes that lock the same rows in a different order can deadlock: PostgreSQL aborts one of them, which tries again later.
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
	if err != nil {
		return fmt.Errorf("record the last use of %d keys: %w", len(uses), err)
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
