package proxy

import (
	"context"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/spans"
)

// directory traces what the policy gate looks up in the store.
type directory struct {
	*sqlstore.Store
}

var _ policy.Directory = directory{}

// Edition implements policy.Directory.
func (d directory) Edition(ctx context.Context) (uint64, error) {
	ctx, span := spans.StartCall(ctx, "look up edition")
	defer span.End()
	return d.Store.Edition(ctx)
}

// Key implements policy.Directory.
func (d directory) Key(ctx context.Context, hash policy.Hash) (policy.Key, error) {
	ctx, span := spans.StartCall(ctx, "look up key")
	defer span.End()
	return d.Store.Key(ctx, hash)
}

// FindProperties implements policy.Directory.
func (d directory) FindProperties(ctx context.Context, personID, workspaceID, reference string) ([]policy.Property, error) {
	ctx, span := spans.StartCall(ctx, "look up property")
	defer span.End()
	return d.Store.FindProperties(ctx, personID, workspaceID, reference)
}
