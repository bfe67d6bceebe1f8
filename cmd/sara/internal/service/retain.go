package service

import (
	"context"
	"time"
)

// retainEvery is how often removed connections are looked for. Removing a connection promises that its tokens are erased everywhere
// within a second.
const retainEvery = 500 * time.Millisecond

// ConnectionStore knows which connections exist.
type ConnectionStore interface {
	// Edition changes whenever a connection is removed.
	Edition(ctx context.Context) (uint64, error)
	ConnectionIDs(ctx context.Context) ([]string, error)
}

// TokenHolder holds access tokens of connections.
type TokenHolder interface {
	// Retain erases all but those of these connections.
	Retain(connections []string)
}

// RetainTokens erases the access tokens of connections that were removed, until ctx ends. While the database does not answer, it
// erases nothing.
func RetainTokens(ctx context.Context, store ConnectionStore, tokens TokenHolder) {
	tick := time.NewTicker(retainEvery)
	defer tick.Stop()
	last := uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			last = retainTokens(ctx, store, tokens, last)
		}
	}
}

// retainTokens returns the edition at which the tokens were last compared.
func retainTokens(ctx context.Context, store ConnectionStore, tokens TokenHolder, last uint64) uint64 {
	edition, err := store.Edition(ctx)
	if err != nil || edition == last {
		return last
	}
	ids, err := store.ConnectionIDs(ctx)
	if err != nil {
		return last
	}
	tokens.Retain(ids)
	return edition
}
