package main

import (
	"context"
	"errors"
	"slices"
	"sync"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/jobs/collector"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

// searchConsole connects the daily jobs to the gateway, and to the store where they record their progress.
type searchConsole struct {
	gateway *upstream.Gateway
	store   *sqlstore.Store
	plans   policy.Plans

	mu     sync.Mutex
	listed map[string]sqlstore.Property // by id
}

var (
	_ collector.Source = (*searchConsole)(nil)
	_ collector.Ledger = (*searchConsole)(nil)
)

// properties returns all properties as the collector takes them.
func (s *searchConsole) properties(ctx context.Context) ([]collector.Property, error) {
	archivable, err := s.store.ArchivableProperties(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = make(map[string]sqlstore.Property, len(archivable))
	properties := make([]collector.Property, len(archivable))
	for i, a := range archivable {
		s.listed[a.ID] = a.Property
		properties[i] = collector.Property{
			ID: a.ID, Site: a.Site, Connection: a.Connection.ID, RetentionMonths: s.plans[a.Plan].RetentionMonths,
			Archived: a.Archived, State: collector.State(a.State),
		}
	}
	return properties, nil
}

// only returns the one of the properties that a reference names; all without a reference.
func only[P any](ctx context.Context, store *sqlstore.Store, reference string, properties []P, id func(P) string) ([]P, error) {
	if reference == "" {
		return properties, nil
	}
	chosen, err := store.Property(ctx, reference)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(properties, func(p P) bool { return id(p) != chosen.ID }), nil
}

// SaveState implements collector.Ledger.
func (s *searchConsole) SaveState(ctx context.Context, state collector.State) error {
	return s.store.SaveArchiveState(ctx, sqlstore.ArchiveState(state))
}

// Ask implements collector.Source.
func (s *searchConsole) Ask(ctx context.Context, p collector.Property, q translate.Query) (*translate.Rows, error) {
	rows, err := s.gateway.Query(ctx, s.target(p.ID), q, nil)
	return rows, refused(err)
}

// target returns a property as it was listed.
func (s *searchConsole) target(propertyID string) upstream.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.listed[propertyID]
	return upstream.Target{PropertyID: p.ID, Site: p.Site, ConnectionID: p.Connection.ID, Revision: p.Connection.Revision,
		Healthy: p.Connection.Healthy, AccessNote: p.AccessNote}
}

// refused says what a failed call means for the job.
func refused(err error) error {
	failure, ok := errors.AsType[*upstream.Error](err)
	if !ok {
		return err // nil, or the credentials could not be read
	}
	refusal := &schedule.Refusal{Class: schedule.Unavailable, Err: err}
	switch failure.Kind {
	case upstream.Quota:
		refusal.Class, refusal.Rest = schedule.Quota, failure.RetryAfter
	case upstream.Forbidden:
		refusal.Class = schedule.AccessLost
	case upstream.Revoked, upstream.Misconfigured:
		refusal.Class = schedule.ConnectionLost
	case upstream.Rejected:
		refusal.Class = schedule.Rejected
	}
	return refusal
}
