package policy

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrUnknown is a Directory's answer when what was asked for is not there.
var ErrUnknown = errors.New("not in the directory")

// A Directory knows keys and properties. Its methods are safe for concurrent use.
type Directory interface {
	// Key returns the key with this hash, revoked and expired ones too, or an error that is ErrUnknown.
	Key(ctx context.Context, hash Hash) (Key, error)

	// FindProperties returns the properties that the person reaches through their workspaces, or through the one workspace
	// unless it is empty, and whose id, full upstream string, slug or host is reference.
	FindProperties(ctx context.Context, personID, workspaceID, reference string) ([]Property, error)

	// Generation grows whenever this process has changed what the other methods return.
	Generation() uint64
}

// Config is what a Gate needs. Every member is required.
type Config struct {
	Directory Directory
	Plans     Plans
	KeyPrefix string // keys are <KeyPrefix>_live_<secret>
	Now       func() time.Time
}

// A Gate admits requests.
type Gate struct {
	config     Config
	keys       *lookup[Hash, *Key]
	properties *lookup[question, []Property]
}

// question is what is asked of Directory.FindProperties.
type question struct {
	personID, workspaceID, reference string
}

// rememberedAnswers bounds each of the gate's two memories; an answer takes about a kilobyte at most.
const rememberedAnswers = 20_000

// NewGate returns a gate over the directory.
func NewGate(c Config) (*Gate, error) {
	keys, err := newLookup[Hash, *Key](c.Now, c.Directory.Generation, rememberedAnswers)
	if err != nil {
		return nil, err
	}
	properties, err := newLookup[question, []Property](c.Now, c.Directory.Generation, rememberedAnswers)
	if err != nil {
		return nil, err
	}
	return &Gate{config: c, keys: keys, properties: properties}, nil
}

// A Grant is an admitted request: whose it is and what it may have.
type Grant struct {
	Key  *Key // shared between requests: read only
	Plan Plan
}

// WorkspaceID returns the workspace that the caller is restricted to, empty for none.
func (g *Grant) WorkspaceID() string { return g.Key.workspaceID() }

// Admit decides on a request by its Authorization header and the scopes that its endpoint needs: first whether the key is
// good, then whether its account's plan has access, then whether it holds the scopes. The Grant is there with a denial
// too, as far as the key was recognised.
func (g *Gate) Admit(ctx context.Context, authorization string, need Scopes) (*Grant, error) {
	text, denial := bearer(authorization, g.config.KeyPrefix)
	if denial != nil {
		return nil, denial
	}
	hash := HashKey(text)
	key, err := g.keys.get(ctx, hash, func(ctx context.Context) (*Key, error) {
		key, err := g.config.Directory.Key(ctx, hash)
		return &key, err
	})
	switch {
	case errors.Is(err, ErrUnknown):
		return nil, deny(CodeInvalidKey, "the key is not known: check that it was copied whole")
	case err != nil:
		return nil, fmt.Errorf("look up a key: %w", err)
	}
	if denial := judgeKey(key, g.config.Now()); denial != nil {
		return nil, denial
	}
	return g.grant(key, need)
}

// judgeKey refuses a key that was good once.
func judgeKey(key *Key, now time.Time) *Denial {
	switch {
	case key.Revoked:
		return deny(CodeRevokedKey, "the key was revoked: create another one")
	case !key.ExpiresAt.IsZero() && !now.Before(key.ExpiresAt):
		return deny(CodeExpiredKey, "the key expired on %s: create another one", key.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}

func (g *Gate) grant(key *Key, need Scopes) (*Grant, error) {
	plan := g.config.Plans[key.PlanName]
	grant := &Grant{Key: key, Plan: plan}
	switch {
	case !plan.APIAccess:
		return grant, deny(CodeNoAccess, "the account's plan has no access to the API: it takes a paid plan")
	case !key.PlanEnd.IsZero() && !g.config.Now().Before(key.PlanEnd):
		return grant, deny(CodeNoAccess, "the account's plan ended: renew it to use the API")
	case key.Scopes&need != need:
		return grant, deny(CodeScope, "the key lacks the scope %s", (need &^ key.Scopes).name())
	}
	return grant, nil
}

// Property returns the property that reference means to the caller of an admitted request.
func (g *Gate) Property(ctx context.Context, grant *Grant, reference string) (Property, error) {
	q := question{personID: grant.Key.PersonID, workspaceID: grant.WorkspaceID(), reference: reference}
	candidates, err := g.properties.get(ctx, q, func(ctx context.Context) ([]Property, error) {
		return g.config.Directory.FindProperties(ctx, q.personID, q.workspaceID, q.reference)
	})
	if err != nil {
		return Property{}, fmt.Errorf("look up a property: %w", err)
	}
	property, denial := resolve(reference, candidates)
	if denial != nil {
		return Property{}, denial
	}
	return property, nil
}
