package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"sara/policy"
)

var _ policy.ReplicaStore = (*Store)(nil)

const (
	replicaUsageColumns = "replica, account_id, hour, day, in_hour, in_day, calls, returned, local_in_hour, local_in_day, local_calls," +
		" local_returned, leased_in_hour, leased_in_day, seen_in_hour, seen_in_day, seen_calls, per_hour, per_day, calls_per_day"
	deleteReplicaUsage = "DELETE FROM replica_usage WHERE replica = $1 AND account_id = $2"
	insertReplicaUsage = "INSERT INTO replica_usage (" + replicaUsageColumns + ")" +
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)"
)

func scanReplicaUsage(row scanner, u *policy.ReplicaUsage) error {
	err := row.Scan(&u.Replica, &u.Used.AccountID, &u.Used.Hour, &u.Used.Day, &u.Used.InHour, &u.Used.InDay, &u.Used.Calls, &u.Used.Returned,
		&u.Local.InHour, &u.Local.InDay, &u.Local.Calls, &u.Local.Returned, &u.Leased.InHour, &u.Leased.InDay,
		&u.Seen.InHour, &u.Seen.InDay, &u.Seen.Calls, &u.PerHour, &u.PerDay, &u.CallsPerDay)
	for _, c := range []*policy.UsageCount{&u.Local, &u.Leased, &u.Seen} {
		c.AccountID, c.Hour, c.Day = u.Used.AccountID, u.Used.Hour, u.Used.Day
	}
	return err
}

// SaveReplicaUsage implements policy.ReplicaStore.
func (s *Store) SaveReplicaUsage(ctx context.Context, usage []policy.ReplicaUsage) (added []policy.ReplicaUsage, err error) {
	err = s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, u := range usage {
			replaced, err := affected(ctx, tx, deleteReplicaUsage, u.Replica, u.Used.AccountID)
			if err == nil {
				if replaced == 0 {
					added = append(added, u)
				}
				_, err = tx.ExecContext(ctx, insertReplicaUsage, u.Replica, u.Used.AccountID, u.Used.Hour, u.Used.Day, u.Used.InHour,
					u.Used.InDay, u.Used.Calls, u.Used.Returned, u.Local.InHour, u.Local.InDay, u.Local.Calls, u.Local.Returned,
					u.Leased.InHour, u.Leased.InDay, u.Seen.InHour, u.Seen.InDay, u.Seen.Calls, u.PerHour, u.PerDay, u.CallsPerDay)
			}
			if err != nil {
				return fmt.Errorf("save what a replica admitted for account %s: %w", u.Used.AccountID, err)
			}
		}
		return nil
	})
	return added, err
}

// ReplicaUsage implements policy.ReplicaStore.
func (s *Store) ReplicaUsage(ctx context.Context, replica string, day int64, after policy.ReplicaAccount, most int) (
	_ []policy.ReplicaUsage, err error) {
	defer wrap(&err, "read what replicas admitted without Redis")
	return all(ctx, s.overview, scanReplicaUsage, "SELECT "+replicaUsageColumns+" FROM replica_usage"+
		" WHERE ($1 = '' OR replica = $1) AND day = $2 AND (replica, account_id) > ($3, $4) ORDER BY replica, account_id LIMIT $5",
		replica, day, after.Replica, after.AccountID, most)
}

// DeleteReplicaUsage implements policy.ReplicaStore.
func (s *Store) DeleteReplicaUsage(ctx context.Context, usage []policy.ReplicaUsage, before int64) error {
	return s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM replica_usage WHERE day < $1", before)
		for _, u := range usage {
			if err == nil { // a row that was saved again since it was read is kept
				_, err = tx.ExecContext(ctx, deleteReplicaUsage+" AND in_day = $3 AND calls = $4 AND returned = $5",
					u.Replica, u.Used.AccountID, u.Used.InDay, u.Used.Calls, u.Used.Returned)
			}
		}
		if err != nil {
			return fmt.Errorf("delete what replicas admitted without Redis: %w", err)
		}
		return nil
	})
}
