package proxy

import (
	"context"
	"errors"
	"fmt"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/spans"
)

// directory shows the store to the policy gate, which knows nothing of SQL.
type directory struct {
	store *sqlstore.Store
}

var _ policy.Directory = directory{}

// Generation implements policy.Directory.
func (d directory) Generation() uint64 { return d.store.Generation() }

// Edition implements policy.Directory.
func (d directory) Edition(ctx context.Context) (uint64, error) {
	ctx, span := spans.StartCall(ctx, "look up edition")
	defer span.End()
	return d.store.Edition(ctx)
}

// Key implements policy.Directory.
func (d directory) Key(ctx context.Context, hash policy.Hash) (policy.Key, error) {
	ctx, span := spans.StartCall(ctx, "look up key")
	defer span.End()
	record, err := d.store.KeyByHash(ctx, hash)
	switch {
	case errors.Is(err, sqlstore.ErrNotFound):
		return policy.Key{}, policy.ErrUnknown
	case err != nil:
		return policy.Key{}, err
	}
	scopes, err := policy.ParseScopes(record.Scopes)
	if err != nil {
		return policy.Key{}, fmt.Errorf("key %s: %w", record.KeyID, err)
	}
	key := policy.Key{ID: record.KeyID, Scopes: scopes, PersonID: record.PersonID,
		AccountID: record.AccountID, PlanName: record.Plan, Revoked: record.RevokedAt != nil}
	if w := record.Workspace; w != nil {
		key.Workspace = &policy.Workspace{ID: w.ID, Name: w.Name}
	}
	if record.ExpiresAt != nil {
		key.ExpiresAt = *record.ExpiresAt
	}
	if record.Until != nil {
		// The day is included, in UTC: the plan ends with the first instant of the next one.
		key.PlanEnd = (*record.Until + 1).Time()
	}
	return key, nil
}

// FindProperties implements policy.Directory.
func (d directory) FindProperties(ctx context.Context, personID, workspaceID, reference string) ([]policy.Property, error) {
	ctx, span := spans.StartCall(ctx, "look up property")
	defer span.End()
	found, err := d.store.FindProperties(ctx, personID, workspaceID, reference)
	return convertAll(found, propertyOf), err
}

func propertyOf(p sqlstore.Property) policy.Property {
	var stored *policy.DayRange
	if p.First != nil && p.Last != nil {
		stored = &policy.DayRange{First: int32(*p.First), Last: int32(*p.Last)}
	}
	return policy.Property{
		ID: p.ID, Site: p.Site, Host: p.Host, Type: p.Type, DisplayName: p.DisplayName, Slug: p.Slug,
		Archived: p.Archived, AccessNote: p.AccessNote, History: stored,
		Connection: policy.Connection{
			ID: p.Connection.ID, Revision: p.Connection.Revision, Healthy: p.Connection.Healthy, Note: p.Connection.Note,
		},
	}
}
