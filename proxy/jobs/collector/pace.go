package collector

import (
	"context"

	"sara/proxy/jobs/schedule"
)

// turn waits until a call about the property may be made: the upstream's limits allow it, and no customer is in the way. A
// customer who stays longer than BusyLimit is not waited for: the upstream forgets a day every day. Calls come one by one,
// because the upstream counts bursts, too.
func (r *run) turn(ctx context.Context, p Property) error {
	if err := r.pace.Turn(ctx, schedule.Limit{Name: "site " + p.Site, PerMinute: r.config.PerSite},
		schedule.Limit{Name: "connection " + p.Connection, PerMinute: r.config.PerConnection},
		schedule.Limit{Name: "all", PerMinute: r.config.Total}); err != nil {
		return err
	}
	return schedule.GiveWay(ctx, r.config.Busy, r.config.BusyLimit)
}
