package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
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

	// Edition grows whenever anybody has changed what Key and FindProperties return.
	Edition(ctx context.Context) (uint64, error)

	// Generation grows whenever this process has: at once, and without asking.
	Generation() uint64
}

// Config is what a Gate needs. Every member is required.
type Config struct {
	Directory Directory
	Plans     Plans
	Budget    Budget
	KeyPrefix string // keys are <KeyPrefix>_live_<secret>
	Now       func() time.Time
}

// A Gate admits requests.
type Gate struct {
	config        Config
	invalidations atomic.Uint64 // how often Forget was called
	authLimiter   *authLimiter
	editions      *cache[struct{}, uint64]
	keys          *cache[Hash, *Key]
	properties    *cache[propertyQuery, []Property]
}

// question is what is asked of Directory.FindProperties.
type propertyQuery struct {
	personID, workspaceID, reference string
}

// rememberedAnswers bounds the gate's memories of keys and of properties; an answer takes about a kilobyte at most.
const maxCachedAnswers = 20_000

// NewGate returns a gate over the directory.
func NewGate(c Config) (*Gate, error) {
	g := &Gate{config: c}
	var err error
	if g.authLimiter, err = newAuthLimiter(c.Now); err != nil {
		return nil, err
	}
	load := func(ctx context.Context, _ struct{}) (uint64, error) { return c.Directory.Edition(ctx) }
	if g.editions, err = newCache(c.Now, editionTTL, 1, load); err != nil {
		return nil, err
	}
	if g.keys, err = newCache(c.Now, answerTTL, maxCachedAnswers, g.loadKey); err != nil {
		return nil, err
	}
	if g.properties, err = newCache(c.Now, answerTTL, maxCachedAnswers, g.loadProperties); err != nil {
		return nil, err
	}
	return g, nil
}

// A generation is a state of the directory. It is another one after every change: at once after those of this process and
// those that it was told of, within a second after all others.
type version struct{ knownChanges, edition uint64 }

func (g *Gate) version(ctx context.Context) (now version, err error) {
	now.knownChanges = g.knownChanges()
	now.edition, err = g.editions.get(ctx, struct{}{}, version{knownChanges: now.knownChanges})
	return now, err
}

// heard counts the changes that are known without asking.
func (g *Gate) knownChanges() uint64 { return g.config.Directory.Generation() + g.invalidations.Load() }

// Invalidate makes the gate ask the directory again for all that it remembers: something was changed elsewhere.
func (g *Gate) Invalidate() { g.invalidations.Add(1) }

// A Grant is a request whose key is good: whose it is and what it may have.
type Grant struct {
	Key   *Key // shared between requests: read only
	Plan  Plan
	Usage Usage // this request included, if it was admitted

	admittedAt time.Time
	version    version // of the directory then
}

// WorkspaceID returns the workspace that the caller is restricted to, empty for none.
func (g *Grant) WorkspaceID() string { return g.Key.workspaceID() }

// A Request is what a gate decides on.
type Request struct {
	Authorization  string // the header, of which the gate keeps nothing: its bytes may be other ones afterwards
	Address        string // of the client
	RequiredScopes Scopes // what the endpoint needs
}

// Admit decides on a request: whether its key is good, then whether its account's plan has access, then whether it holds
// the scopes, and last whether it fits the budgets, to which it is charged. With a denial after the first stage comes a
// Grant nevertheless, whose usage does not include the request.
func (g *Gate) Admit(ctx context.Context, r Request) (*Grant, error) {
	grant, err := g.authenticate(ctx, r)
	if err != nil {
		return nil, err
	}
	return g.decide(ctx, grant, g.config.Now(), r.RequiredScopes)
}

// StillValid reports whether nothing has changed until now, by the gate's own clock, since a request was admitted, as far as is
// known without asking: then its key and its properties are what they were.
func (g *Gate) StillValid(grant *Grant, now time.Time) bool {
	present := version{knownChanges: g.knownChanges()}
	edition, ok := g.editions.cached(now, struct{}{}, present)
	present.edition = edition.value
	return ok && grant.version == present && within(now, edition.triedAt, editionTTL) && within(now, grant.admittedAt, answerTTL)
}

// Readmit decides like Admit on another request, of now, with the key of one that was admitted, for as long as that StillValid reports true.
func (g *Gate) Readmit(ctx context.Context, before *Grant, now time.Time, need Scopes) (*Grant, error) {
	if denial := checkKey(before.Key, now); denial != nil {
		return nil, denial
	}
	grant := *before
	return g.decide(ctx, &grant, now, need)
}

// decide decides on a request whose key is good.
func (g *Gate) decide(ctx context.Context, grant *Grant, now time.Time, need Scopes) (*Grant, error) {
	if denial := g.checkAccess(grant, now, need); denial != nil {
		grant.Usage = g.config.Budget.Usage(ctx, grant.Key.AccountID)
		return grant, denial
	}
	usage, refusal := g.config.Budget.Admit(ctx, grant.Key.AccountID, grant.Key.ID, grant.Plan)
	grant.Usage = usage
	if refusal != nil {
		return grant, refusal.denial()
	}
	return grant, nil
}

// Identify returns the Grant of a request that asks for nothing that exists, and charges nothing: nil when its key is not
// good.
func (g *Gate) Identify(ctx context.Context, r Request) *Grant {
	grant, err := g.authenticate(ctx, r)
	if err != nil {
		return nil
	}
	grant.Usage = g.config.Budget.Usage(ctx, grant.Key.AccountID)
	return grant
}

// ChargeLiveCalls charges upstream calls about a property to the caller's account and to the property, all of them or none.
func (g *Gate) ChargeLiveCalls(ctx context.Context, grant *Grant, propertyID string, calls int) error {
	if refusal := g.config.Budget.ChargeLiveCalls(ctx, grant.Key.AccountID, propertyID, calls, grant.Plan); refusal != nil {
		return refusal.denial()
	}
	return nil
}

// RefundLiveCalls gives back to the caller's account calls that were charged for this request and not made, because somebody else
// is making them. It does nothing once the day on which the request was admitted is over.
func (g *Gate) RefundLiveCalls(ctx context.Context, grant *Grant, calls int) {
	g.config.Budget.RefundLiveCalls(ctx, grant.Key.AccountID, calls, grant.Usage.At)
}

// authenticate returns the Grant of the key that a request carries, if it is good, without a usage. Who tries many keys that
// do not exist is turned away before the directory is asked; keys that were seen to be good pass nevertheless.
func (g *Gate) authenticate(ctx context.Context, r Request) (*Grant, error) {
	if r.Authorization == "" {
		return nil, deny(CodeInvalidKey, "the request carries no key: send the header %s", authSchemeText)
	}
	text, denial := bearer(r.Authorization, g.config.KeyPrefix)
	hash := HashKey(text)
	if denial == nil && g.keys.knows(hash) {
		return g.lookupKey(ctx, hash)
	}
	decided, refusal := g.authLimiter.begin(ctx, r.Address)
	if refusal != nil {
		return nil, refusal.denial()
	}
	guess := denial != nil
	defer func() { decided(guess) }()
	if denial != nil {
		return nil, denial
	}
	grant, err := g.lookupKey(ctx, hash)
	guess = isUnknown(err)
	return grant, err
}

func isUnknown(err error) bool {
	var denial *Denial
	return errors.As(err, &denial) && denial.Code == CodeInvalidKey
}

// known returns the Grant of the key with this hash, if there is one and it is still good.
func (g *Gate) lookupKey(ctx context.Context, hash Hash) (*Grant, error) {
	generation, err := g.version(ctx)
	if err != nil {
		return nil, fmt.Errorf("look whether keys have changed: %w", err)
	}
	key, err := g.keys.get(ctx, hash, generation)
	switch {
	case errors.Is(err, ErrUnknown):
		return nil, deny(CodeInvalidKey, "the key is not known: check that it was copied whole")
	case err != nil:
		return nil, fmt.Errorf("look up a key: %w", err)
	}
	now := g.config.Now()
	if denial := checkKey(key, now); denial != nil {
		return nil, denial
	}
	return &Grant{Key: key, Plan: g.config.Plans[key.PlanName], admittedAt: now, version: generation}, nil
}

// judgeKey refuses a key that was good once.
func checkKey(key *Key, now time.Time) *Denial {
	switch {
	case key.Revoked:
		return deny(CodeRevokedKey, "the key was revoked: create another one")
	case !key.ExpiresAt.IsZero() && !now.Before(key.ExpiresAt):
		return deny(CodeExpiredKey, "the key expired on %s: create another one", key.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// judge refuses a good key what its plan or its scopes do not cover.
func (g *Gate) checkAccess(grant *Grant, now time.Time, need Scopes) *Denial {
	key := grant.Key
	switch {
	case !grant.Plan.APIAccess:
		return deny(CodeNoAccess, "the account's plan has no access to the API: it takes a paid plan")
	case !key.PlanEnd.IsZero() && !now.Before(key.PlanEnd):
		return deny(CodeNoAccess, "the account's plan ended: renew it to use the API")
	case key.Scopes&need != need:
		return deny(CodeScope, "the key lacks the scope %s", strings.Join((need&^key.Scopes).Names(), ", "))
	}
	return nil
}

// longestReference is well above what a property may be called; the gate remembers references, so it does not take any.
const maxReferenceLength = 2048

// Property returns the property that reference means to the caller of an admitted request. The gate remembers both: the
// property is shared between requests, read only, and the reference's bytes must stay what they are.
func (g *Gate) Property(ctx context.Context, grant *Grant, reference string) (*Property, error) {
	if len(reference) > maxReferenceLength {
		return nil, notFound(reference)
	}
	candidates, err := g.properties.get(ctx, propertyQuery{grant.Key.PersonID, grant.WorkspaceID(), reference}, grant.version)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return nil, fmt.Errorf("look up a property: %w", err)
	}
	property, denial := resolve(reference, candidates)
	if denial != nil {
		return nil, denial
	}
	return property, nil
}

func (g *Gate) loadKey(ctx context.Context, hash Hash) (*Key, error) {
	key, err := g.config.Directory.Key(ctx, hash)
	if err != nil {
		return nil, err
	}
	return &key, nil
}

// loadProperties has no candidates at all pass for unknown, as no key does.
func (g *Gate) loadProperties(ctx context.Context, q propertyQuery) ([]Property, error) {
	found, err := g.config.Directory.FindProperties(ctx, q.personID, q.workspaceID, q.reference)
	if err == nil && len(found) == 0 {
		err = ErrUnknown
	}
	return found, err
}
