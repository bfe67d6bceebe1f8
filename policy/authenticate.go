package policy

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// authenticate returns the Grant of the request's key, without a usage. A text without the form of a key is refused
// without a look-up. Any other is looked up before it is refused, and only an unknown one counts against its network: a valid one is never
// refused for the guesses of others.
func (g *Gate) authenticate(ctx context.Context, r Request) (*Grant, error) {
	text, denial := bearer(r.Authorization, g.config.KeyPrefix)
	if denial != nil {
		return nil, denial
	}
	return g.lookupKey(ctx, r.hash(text), r.Address)
}

// RefuseAtOnce refuses a request whose key does not have the form of one, or is not in the census. It returns nil for any other, and for what
// it cannot know without waiting: Admit decides about those. The caller passes the time by the gate's own clock.
func (g *Gate) RefuseAtOnce(now time.Time, r Request) *Denial {
	text, denial := bearer(r.Authorization, g.config.KeyPrefix)
	if denial != nil {
		return denial
	}
	present, edition, ok := g.cachedVersion(now)
	if ok && within(now, edition.triedAt, editionTTL) && g.isGuess(context.Background(), now, keyQuestion{r.hash(text), present}, r.Address) {
		return g.unknownKey
	}
	return nil
}

// isGuess reports whether the census in use shows a key to be unknown, and counts it in that case. Networks that guess a lot wait for a query,
// as they do without a census.
func (g *Gate) isGuess(ctx context.Context, now time.Time, q keyQuestion, address string) bool {
	c := g.keys.census.Load()
	if !c.answers(now, &q) {
		return false
	}
	network := Network(address)
	if g.misses.count(network, 1) != nil {
		return false
	}
	g.keys.checkAhead(ctx, now, c, q, network)
	return true
}

// lookupKey returns the Grant of the key with this hash, if the key exists and is valid. It counts a key that does not.
func (g *Gate) lookupKey(ctx context.Context, hash Hash, address string) (*Grant, error) {
	version, err := g.version(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the directory's edition: %w", err)
	}
	if g.isGuess(ctx, g.config.Now(), keyQuestion{hash, version}, address) {
		return nil, g.unknownKey
	}
	key, err := g.keys.get(ctx, hash, address, version)
	switch {
	case errors.Is(err, ErrUnknown):
		if refusal := g.misses.count(Network(address), 1); refusal != nil {
			return nil, g.texts.denial(refusal)
		}
		return nil, g.unknownKey
	case err != nil:
		return nil, fmt.Errorf("look up a key: %w", err)
	}
	now := g.config.Now()
	if denial := checkKey(key, now); denial != nil {
		return nil, denial
	}
	return &Grant{Key: key, Plan: g.config.Plans[key.PlanName], lookedUpAt: now, version: version}, nil
}

// checkKey refuses a revoked or expired key.
func checkKey(key *Key, now time.Time) *Denial {
	switch {
	case !key.RevokedAt.IsZero() && !now.Before(key.RevokedAt):
		return deny(CodeRevokedKey, "the key was revoked: create another one")
	case !key.ExpiresAt.IsZero() && !now.Before(key.ExpiresAt):
		return deny(CodeExpiredKey, "the key expired on %s: create another one", key.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}
