// Package jobs connects the background jobs of package proxy/jobs to what serve and the commands have open: the gateway, the
// store that lists the properties, and the quotas that processes share.
package jobs

import (
	"context"
	"slices"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/jobs/collector"
	"sara/proxy/jobs/inspector"
	"sara/proxy/upstream"
)

// A Source is what both jobs work with: the gateway, and the store that lists the properties.
type Source struct {
	Gateway *upstream.Gateway
	Store   *sqlstore.Store
	Plans   policy.Plans
}

// target returns the property as the gateway needs it.
func target(p sqlstore.Property) upstream.Target {
	return upstream.Target{PropertyID: p.ID, Site: p.Site, ConnectionID: p.Connection.ID, Revision: p.Connection.Revision,
		Healthy: p.Connection.Healthy, AccessNote: p.AccessNote}
}

// Collectable returns all properties for the collector.
func (s *Source) Collectable(ctx context.Context) ([]collector.Property, error) {
	listed, err := s.Store.ArchivableProperties(ctx)
	if err != nil {
		return nil, err
	}
	properties := make([]collector.Property, len(listed))
	for i, p := range listed {
		properties[i] = s.collectable(p)
	}
	return properties, nil
}

func (s *Source) collectable(p sqlstore.ArchivableProperty) collector.Property {
	return collector.Property{Target: target(p.Property), RetentionMonths: s.Plans[p.Plan].RetentionMonths, Archived: p.Archived, State: p.State}
}

// CurrentCollectable is the member Current of a collector's configuration.
func (s *Source) CurrentCollectable(ctx context.Context, id string) (collector.Property, bool, error) {
	p, exists, err := s.Store.ArchivableProperty(ctx, id)
	return s.collectable(p), exists, err
}

// Inspectable returns all properties for the inspector.
func (s *Source) Inspectable(ctx context.Context) ([]inspector.Property, error) {
	listed, err := s.Store.InspectableProperties(ctx)
	if err != nil {
		return nil, err
	}
	properties := make([]inspector.Property, len(listed))
	for i, p := range listed {
		properties[i] = s.inspectable(p)
	}
	return properties, nil
}

func (s *Source) inspectable(p sqlstore.InspectableProperty) inspector.Property {
	return inspector.Property{Target: target(p.Property), MaxURLs: s.Plans[p.Plan].InspectedURLsPerProperty, Archived: p.Archived, State: p.Index}
}

// CurrentInspectable is the member Current of an inspector's configuration.
func (s *Source) CurrentInspectable(ctx context.Context, id string) (inspector.Property, bool, error) {
	p, exists, err := s.Store.InspectableProperty(ctx, id)
	return s.inspectable(p), exists, err
}

// Chosen returns, of the properties of a list, the one that a reference names, or all without a reference.
func Chosen[P any](ctx context.Context, store *sqlstore.Store, reference string,
	list func(context.Context) ([]P, error), id func(P) string) ([]P, error) {
	properties, err := list(ctx)
	if err != nil || reference == "" {
		return properties, err
	}
	chosen, err := store.Property(ctx, reference)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(properties, func(p P) bool { return id(p) != chosen.ID }), nil
}
