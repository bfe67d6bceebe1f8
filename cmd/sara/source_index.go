package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/jobs/inspector"
	"sara/translate"
)

var _ inspector.Source = (*searchConsole)(nil)

// inspectable returns all properties as the inspector takes them.
func (s *searchConsole) inspectable(ctx context.Context) ([]inspector.Property, error) {
	listed, err := s.store.InspectableProperties(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = make(map[string]sqlstore.Property, len(listed))
	properties := make([]inspector.Property, len(listed))
	for i, p := range listed {
		s.listed[p.ID] = p.Property
		properties[i] = inspector.Property{ID: p.ID, Site: p.Site, Connection: p.Connection.ID,
			MaxURLs: s.plans[p.Plan].InspectedURLsPerProperty, Archived: p.Archived, State: p.Index}
	}
	return properties, nil
}

// Sitemaps implements inspector.Source.
func (s *searchConsole) Sitemaps(ctx context.Context, p inspector.Property) ([]inspector.Sitemap, error) {
	listed, err := s.gateway.Sitemaps(ctx, s.target(p.ID))
	if err != nil {
		return nil, refused(err)
	}
	sitemaps := make([]inspector.Sitemap, len(listed))
	for i, m := range listed {
		sitemaps[i] = inspector.Sitemap{Path: m.Path, LastDownloaded: m.LastDownloaded, IsPending: m.IsPending,
			Warnings: m.Warnings, Errors: m.Errors}
	}
	return sitemaps, nil
}

// Inspect implements inspector.Source.
func (s *searchConsole) Inspect(ctx context.Context, p inspector.Property, address string) (inspector.Inspection, error) {
	answer, err := s.gateway.Inspect(ctx, s.target(p.ID), address)
	if err != nil {
		return inspector.Inspection{}, refused(err)
	}
	return inspector.Inspection{CoverageState: answer.CoverageState, Verdict: answer.Verdict, LastCrawl: answer.LastCrawl}, nil
}

// quotaOf returns the quota that all processes share: on Redis, or without one in the database.
func quotaOf(store *sqlstore.Store, client redis.UniversalClient) inspector.Quota {
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

// storedQuota counts the inspections of a day in the database. Of the minute the inspector takes care by itself.
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
