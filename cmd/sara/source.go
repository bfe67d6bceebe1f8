package main

import (
	"context"
	"slices"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/jobs/collector"
	"sara/proxy/jobs/inspector"
	"sara/proxy/upstream"
)

// searchConsole is what both jobs work with: the gateway, and the store that lists the properties.
type searchConsole struct {
	gateway *upstream.Gateway
	store   *sqlstore.Store
	plans   policy.Plans
}

// target returns what the gateway needs to know of a property.
func target(p sqlstore.Property) upstream.Target {
	return upstream.Target{PropertyID: p.ID, Site: p.Site, ConnectionID: p.Connection.ID, Revision: p.Connection.Revision,
		Healthy: p.Connection.Healthy, AccessNote: p.AccessNote}
}

// collectable returns all properties for the collector.
func (s *searchConsole) collectable(ctx context.Context) ([]collector.Property, error) {
	listed, err := s.store.ArchivableProperties(ctx)
	if err != nil {
		return nil, err
	}
	properties := make([]collector.Property, len(listed))
	for i, p := range listed {
		properties[i] = collector.Property{Target: target(p.Property), RetentionMonths: s.plans[p.Plan].RetentionMonths,
			Archived: p.Archived, State: p.State}
	}
	return properties, nil
}

// inspectable returns all properties for the inspector.
func (s *searchConsole) inspectable(ctx context.Context) ([]inspector.Property, error) {
	listed, err := s.store.InspectableProperties(ctx)
	if err != nil {
		return nil, err
	}
	properties := make([]inspector.Property, len(listed))
	for i, p := range listed {
		properties[i] = inspector.Property{Target: target(p.Property), MaxURLs: s.plans[p.Plan].InspectedURLsPerProperty,
			Archived: p.Archived, State: p.Index}
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
