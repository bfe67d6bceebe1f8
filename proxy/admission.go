package proxy

import (
	"context"
	"time"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/spans"
)

// AdmissionConfig says which keys there are, and how much they may ask for. Every field is required.
type AdmissionConfig struct {
	Plans     policy.Plans
	Budget    policy.Budget
	KeyPrefix string // keys are <KeyPrefix>_live_<secret>

	// LookupTimeout bounds one look-up of keys or properties in the store; 0: one second.
	LookupTimeout time.Duration
}

func newGate(c AdmissionConfig, store *sqlstore.Store, now func() time.Time) *policy.Gate {
	return policy.NewGate(policy.Config{Directory: directory{store}, Plans: c.Plans, Budget: c.Budget, KeyPrefix: c.KeyPrefix, Now: now,
		LookupTimeout: c.LookupTimeout})
}

// directory traces the lookups of the policy gate in the store.
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

// FindKeys implements policy.Directory.
func (d directory) FindKeys(ctx context.Context, hashes []policy.Hash) (map[policy.Hash]policy.Key, error) {
	ctx, span := spans.StartCall(ctx, "look up keys")
	defer span.End()
	return d.Store.FindKeys(ctx, hashes)
}

// FindProperties implements policy.Directory.
func (d directory) FindProperties(ctx context.Context, personID, workspaceID, reference string) ([]policy.Property, error) {
	ctx, span := spans.StartCall(ctx, "look up property")
	defer span.End()
	return d.Store.FindProperties(ctx, personID, workspaceID, reference)
}
