package admin

import (
	"context"
	"time"

	"sara/archive/sqlstore"
	"sara/policy"
)

// KeyOptions is the configuration of API keys.
type KeyOptions struct {
	Prefix string
	Plans  policy.Plans
}

// CreateKey creates a key and stores its hash. The key itself is not stored: the caller has the only copy. It works at once, on all
// replicas.
func (a Admin) CreateKey(ctx context.Context, options KeyOptions, spec sqlstore.KeySpec) (sqlstore.APIKey, string, error) {
	if len(spec.Scopes) == 0 {
		spec.Scopes = policy.AllScopes.Names()
	}
	scopes, err := policy.ParseScopes(spec.Scopes)
	if err != nil {
		return sqlstore.APIKey{}, "", err
	}
	spec.Scopes = scopes.Names()
	text, hash := policy.NewKey(options.Prefix)
	spec.Hash = hash
	key, err := a.Store.CreateKey(ctx, spec, func(plan string) int { return options.Plans[plan].Keys })
	if err != nil {
		return sqlstore.APIKey{}, "", err
	}
	a.awaitKey()
	return key, text, nil
}

// RotateKey replaces a key with a new one, whose text it returns; the caller has the only copy. The new key works at once, on all
// replicas, and expires after at most maxDays, if that is not 0. The old one ends after the overlap.
func (a Admin) RotateKey(ctx context.Context, prefix, id string, overlap time.Duration, maxDays int) (
	key, old sqlstore.APIKey, text string, err error) {
	text, hash := policy.NewKey(prefix)
	if key, old, err = a.Store.RotateKey(ctx, id, hash, overlap, maxDays); err != nil {
		return key, old, "", err
	}
	a.awaitKey()
	return key, old, text, nil
}

// awaitKey waits until no replica can consider a key that was just stored unknown. Callers get the key after that, so it works at once.
func (a Admin) awaitKey() {
	sleep := a.Sleep
	if sleep == nil {
		sleep = time.Sleep
	}
	sleep(policy.NewKeyDelay)
}
