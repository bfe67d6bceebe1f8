package jobs

import (
	"context"
	"time"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/policy/redisconn"
	"sara/proxy/jobs/inspector"
	"sara/translate"
)

// InspectionQuota returns the quota that all processes share: on Redis, or without it in the database.
func InspectionQuota(store *sqlstore.Store, client redisconn.Client) inspector.Quota {
	if client == nil {
		return storedQuota{store}
	}
	return sharedQuota{policy.NewInspections(client, policy.InspectionLimits{})}
}

// sharedQuota counts inspections for all processes on one Redis.
type sharedQuota struct{ counts *policy.Inspections }

// Take implements inspector.Quota.
func (q sharedQuota) Take(ctx context.Context, site string, day translate.Date) (granted bool, wait time.Duration, err error) {
	return q.counts.Take(ctx, site, int32(day))
}

// storedQuota counts the inspections of a day in the database. The inspector itself limits those of a minute.
type storedQuota struct{ store *sqlstore.Store }

// Take implements inspector.Quota.
func (q storedQuota) Take(ctx context.Context, site string, day translate.Date) (granted bool, wait time.Duration, err error) {
	granted, err = q.store.TakeInspection(ctx, site, day, policy.InspectionsPerDay)
	return granted, 0, err
}

var (
	_ inspector.Quota = sharedQuota{}
	_ inspector.Quota = storedQuota{}
)
