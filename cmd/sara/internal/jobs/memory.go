package jobs

import (
	"context"
	"errors"

	"sara/proxy/fillbudget"
	"sara/proxy/jobs/collector"
	"sara/proxy/jobs/inspector"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

// A Gateway makes the upstream calls of the jobs beside a server: each takes its memory from the server's budget, after the
// requests.
type Gateway struct {
	Upstream *upstream.Gateway
	Fills    *fillbudget.Budget
}

var (
	_ collector.Gateway = Gateway{}
	_ inspector.Gateway = Gateway{}
)

// What calls other than queries hold: the index status of a URL has a few kilobytes, and a list of sitemaps a few hundred bytes
// for each; the gateway reads at most 8 MiB.
const (
	inspectionBytes = 128 << 10
	sitemapsBytes   = 8 << 20
)

// Query implements collector.Gateway and inspector.Gateway.
func (g Gateway) Query(ctx context.Context, t upstream.Target, q translate.Query) (rows *translate.Rows, err error) {
	err = g.within(ctx, t, q.MaxBody(), func() error {
		rows, err = g.Upstream.Query(ctx, t, q)
		return err
	})
	return rows, err
}

// Sitemaps implements inspector.Gateway.
func (g Gateway) Sitemaps(ctx context.Context, t upstream.Target) (sitemaps []upstream.Sitemap, err error) {
	err = g.within(ctx, t, sitemapsBytes, func() error {
		sitemaps, err = g.Upstream.Sitemaps(ctx, t)
		return err
	})
	return sitemaps, err
}

// Inspect implements inspector.Gateway.
func (g Gateway) Inspect(ctx context.Context, t upstream.Target, url string, charge func(context.Context) error) (
	status upstream.Inspection, err error) {
	err = g.within(ctx, t, inspectionBytes, func() error {
		status, err = g.Upstream.Inspect(ctx, t, url, charge)
		return err
	})
	return status, err
}

// within makes a call once there is memory for it. A job has time: a refusal only delays it. The properties take turns.
func (g Gateway) within(ctx context.Context, t upstream.Target, bytes int64, call func() error) error {
	for {
		grant, err := g.Fills.Acquire(ctx, fillbudget.Claim{Account: t.PropertyID, Bytes: bytes, Background: true})
		if err == nil {
			defer grant.Release()
			return call()
		}
		refused, ok := errors.AsType[*fillbudget.RefusedError](err)
		if !ok {
			return err
		}
		if err := schedule.Sleep(ctx, refused.RetryAfter); err != nil {
			return err
		}
	}
}
