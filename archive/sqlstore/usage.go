package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"sara/policy"
)

var _ policy.UsageStore = (*Store)(nil)

func scanUsage(row scanner, u *policy.UsageCount) error {
	return row.Scan(&u.AccountID, &u.Hour, &u.Day, &u.InHour, &u.InDay, &u.Calls)
}

// SaveUsage implements policy.UsageStore. It replaces the usage of the accounts in counts, in one transaction, and skips accounts that
// have been removed. Generation stays the same: served data does not depend on usage.
func (s *Store) SaveUsage(ctx context.Context, counts []policy.UsageCount) error {
	return s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, u := range counts {
			_, err := tx.ExecContext(ctx, "INSERT INTO usage_counts (account_id, hour, day, in_hour, in_day, calls)"+
				" SELECT $1, $2, $3, $4, $5, $6 WHERE EXISTS (SELECT 1 FROM accounts WHERE id = $1) ON CONFLICT (account_id) DO UPDATE SET hour = excluded.hour,"+
				" day = excluded.day, in_hour = excluded.in_hour, in_day = excluded.in_day, calls = excluded.calls",
				u.AccountID, u.Hour, u.Day, u.InHour, u.InDay, u.Calls)
			if err != nil {
				return fmt.Errorf("save the usage of account %s: %w", u.AccountID, err)
			}
		}
		return nil
	})
}

// Usage implements policy.UsageStore.
func (s *Store) Usage(ctx context.Context, day int64) (_ []policy.UsageCount, err error) {
	defer wrap(&err, "read the usage of day %d", day)
	return all(ctx, s.overview, scanUsage,
		"SELECT account_id, hour, day, in_hour, in_day, calls FROM usage_counts WHERE day = $1 ORDER BY account_id", day)
}

// UsageOf returns the usage on a day of the accounts whose IDs are in a range, both ends included.
func (s *Store) UsageOf(ctx context.Context, day int64, first, last string) (_ []policy.UsageCount, err error) {
	defer wrap(&err, "read the usage of the accounts %s to %s on day %d", first, last, day)
	return all(ctx, s.overview, scanUsage, "SELECT account_id, hour, day, in_hour, in_day, calls FROM usage_counts"+
		" WHERE account_id >= $1 AND account_id <= $2 AND day = $3 ORDER BY account_id", first, last, day)
}
