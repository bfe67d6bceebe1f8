package policy

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"
)

// ErrUnknown means that the Directory has no such entry.
var ErrUnknown = errors.New("not in the directory")

// A Directory looks up keys and properties. Its methods are safe for concurrent use.
type Directory interface {
	// FindKeys returns the keys with these hashes, by hash, even if they are revoked or expired. Those that are not known are
	// left out.
	FindKeys(ctx context.Context, hashes []Hash) (map[Hash]Key, error)

	// KeyHashes returns the hashes of all keys, or of any limit of them if there are more.
	KeyHashes(ctx context.Context, limit int) ([]Hash, error)

	// FindProperties returns the properties whose id, full upstream name, slug or host is reference, among those that the
	// person can reach: in any of their workspaces if workspaceID is empty, else in that one only.
	FindProperties(ctx context.Context, personID, workspaceID, reference string) ([]Property, error)

	// Edition returns a counter that increases with every change, by any process, to what FindKeys and FindProperties return.
	Edition(ctx context.Context) (uint64, error)

	// Generation returns a counter of the changes by this process. It is always current and cheap to read.
	Generation() uint64
}

// Config configures a Gate. Every field is required, unless it says what its zero means.
type Config struct {
	Directory Directory
	Plans     Plans
	Budget    Budget
	KeyPrefix string // keys are <KeyPrefix>_live_<secret>
	Now       func() time.Time

	// LookupTimeout bounds one call of the directory; 0: one second.
	LookupTimeout time.Duration
}

// A Gate decides on requests. It is safe for concurrent use.
type Gate struct {
	config        Config
	invalidations atomic.Uint64  // how often Invalidate was called
	unknownKey    *Denial        // of every unknown key
	misses        *minuteLimiter // by network
	messages      *minuteLimiter // by key
	uses          keyUses
	texts         refusalTexts
	editions      *cache[struct{}, uint64]
	keys          *keyFinder
	properties    *cache[propertyQuery, []Property]
}

// maxCachedAnswers bounds the keys and the properties in the gate's caches; one entry for a host may have many properties. Each takes up to
// about a kilobyte.
const maxCachedAnswers = 20_000

// NewGate returns a gate over the directory.
func NewGate(c Config) *Gate {
	c.LookupTimeout = cmp.Or(c.LookupTimeout, defaultLookupTimeout)
	g := &Gate{config: c, unknownKey: deny(CodeInvalidKey, "the key is unknown: check that you copied all of it"),
		misses:   newMinuteLimiter(c.Now, AddressMinute, maxUnknownKeys),
		messages: newMinuteLimiter(c.Now, MessageMinute, maxMessages),
		texts:    newRefusalTexts()}
	load := func(ctx context.Context, _ struct{}) (uint64, error) { return c.Directory.Edition(ctx) }
	g.editions = newCache(c.Now, editionTTL, 1, c.LookupTimeout, load)
	g.keys = newKeyFinder(&c, g.misses)
	g.properties = newCache(c.Now, answerTTL, maxCachedAnswers, c.LookupTimeout, g.loadProperties)
	g.properties.weigh = func(found []Property) int64 { return int64(max(1, len(found))) }
	return g
}

// A Grant is an authenticated request.
type Grant struct {
	Key   *Key // shared between requests: read only
	Plan  Plan
	Usage Usage // including this request, if it was admitted

	lookedUpAt time.Time
	version    version // of the directory, when the key was looked up
}

// WorkspaceID returns the workspace that the key is restricted to, or "" if it is not.
func (g *Grant) WorkspaceID() string { return g.Key.workspaceID() }

// A Request is the part of an HTTP request that a Gate decides on.
type Request struct {
	Authorization  string // the header; the gate keeps no reference to it, so its buffer may be reused
	KeyHash        Hash   // of the key in it, if the caller has it from HashKey; zero: it does not
	Address        string // of the client
	RequiredScopes Scopes // by the endpoint
}

// Admit checks the key, then the client's address, the plan and the scopes, and last the budgets, to which an admitted request is
// charged. A denial after the first check comes with a Grant, whose usage does not include the request. A denial by plan or scopes is
// charged to the key's minute only, and one by address to nothing of the key: see foreign.
func (g *Gate) Admit(ctx context.Context, r Request) (*Grant, error) {
	grant, err := g.authenticate(ctx, r)
	if err != nil {
		return nil, err
	}
	return g.decide(grant, g.config.Now(), r)
}

// StillValid reports whether a memoized grant can be used for Readmit: the directory has not changed since the grant was made,
// as far as is known without asking it, so its key and properties are still the same. Now is the gate's own clock.
func (g *Gate) StillValid(grant *Grant, now time.Time) bool {
	present, edition, ok := g.cachedVersion(now)
	return ok && grant.version == present && within(now, edition.triedAt, editionTTL) && within(now, grant.lookedUpAt, answerTTL)
}

// Readmit is Admit without the key lookup, for another request at now with the key of an earlier grant, perhaps from another
// address. It completes and returns the grant that it is given, which is the request's own copy of the earlier one. The caller
// has checked StillValid.
func (g *Gate) Readmit(grant *Grant, now time.Time, r Request) (*Grant, error) {
	if denial := checkKey(grant.Key, now); denial != nil {
		return nil, denial
	}
	return g.decide(grant, now, r)
}

// decide runs the checks that follow authentication.
func (g *Gate) decide(grant *Grant, now time.Time, r Request) (*Grant, error) {
	if !grant.Key.From.Contain(r.Address) {
		denial := g.foreign(r.Address)
		if denial.Code == CodeAddress {
			grant.Usage = g.config.Budget.Usage(grant.Key.AccountID)
		}
		return grant, denial
	}
	if denial := g.checkAccess(grant, now, r); denial != nil {
		if err := g.chargeMinute(grant); err != nil {
			return grant, err
		}
		return grant, denial
	}
	usage, refusal := g.config.Budget.Admit(grant.Key.AccountID, grant.Key.ID, grant.Plan)
	grant.Usage = usage
	if refusal != nil {
		return grant, g.texts.denial(refusal)
	}
	g.uses.note(grant.Key.ID, now)
	return grant, nil
}

// AdmitUncovered admits a request that no allowance covers, for a path or a method that does not exist: it is charged to the key's minute
// only. The grant is nil if the key is not valid, or not from the client's address; the error is a denial if the minute is used up.
func (g *Gate) AdmitUncovered(ctx context.Context, r Request) (*Grant, error) {
	grant, err := g.authenticate(ctx, r)
	if err != nil || !grant.Key.From.Contain(r.Address) {
		return nil, nil // the answer to such a path does not depend on the key
	}
	return grant, g.chargeMinute(grant)
}

// Peek returns the grant of a request that is charged to nothing, with the usage of the account; nil if the key is not valid, or not from
// the client's address.
func (g *Gate) Peek(ctx context.Context, r Request) *Grant {
	grant, err := g.authenticate(ctx, r)
	if err != nil || !grant.Key.From.Contain(r.Address) {
		return nil // the answer to such a request does not depend on the key
	}
	grant.Usage = g.config.Budget.Usage(grant.Key.AccountID)
	return grant
}

// AdmitMessages checks the key and the client's address of messages that no budget is charged for, because they make requests that are
// charged, or none. What bounds such messages is a minute of their own, in memory. The grant has no usage.
func (g *Gate) AdmitMessages(ctx context.Context, r Request, messages int) (*Grant, error) {
	grant, err := g.authenticate(ctx, r)
	if err != nil {
		return nil, err
	}
	if !grant.Key.From.Contain(r.Address) {
		return nil, g.foreign(r.Address)
	}
	if refusal := g.messages.count(grant.Key.ID, messages); refusal != nil {
		return nil, g.texts.denial(refusal)
	}
	return grant, nil
}

// foreign refuses a key from an address that it is not for. It counts as an unknown key of that address: a thief who cannot use the key must
// not be able to use up its minute either.
func (g *Gate) foreign(address string) *Denial {
	if refusal := g.misses.count(Network(address), 1); refusal != nil {
		return g.texts.denial(refusal)
	}
	return deny(CodeAddress, "the key cannot be used from the address %s: ask its administrator to allow the address", address)
}

// Recognizes reports whether a request has a valid key of the client's address, as far as the gate knows without asking the directory:
// a key that was looked up in the last five minutes.
func (g *Gate) Recognizes(r Request) bool {
	text, denial := bearer(r.Authorization, g.config.KeyPrefix)
	if denial != nil {
		return false
	}
	now := g.config.Now()
	present, _, ok := g.cachedVersion(now)
	if !ok {
		return false
	}
	known, ok := g.keys.cached(now, r.hash(text), present)
	return ok && known.err == nil && checkKey(known.value, now) == nil && known.value.From.Contain(r.Address)
}

// chargeMinute charges a request that no allowance covers, so that its number is bounded too.
func (g *Gate) chargeMinute(grant *Grant) error {
	usage, refusal := g.config.Budget.ChargeMinute(grant.Key.AccountID, grant.Key.ID, grant.Plan)
	grant.Usage = usage
	if refusal != nil {
		return g.texts.denial(refusal)
	}
	return nil
}

// ChargeLiveCalls charges upstream calls about a property to the account and to the property: all of them or none.
func (g *Gate) ChargeLiveCalls(grant *Grant, propertyID string, calls int) error {
	if refusal := g.config.Budget.ChargeLiveCalls(grant.Key.AccountID, propertyID, calls, grant.Plan); refusal != nil {
		return g.texts.denial(refusal)
	}
	return nil
}

// RefundLiveCalls returns to the account calls that were charged for this request but not made, because another request was
// already making them (singleflight). It does nothing if the day on which the request was admitted has ended.
func (g *Gate) RefundLiveCalls(grant *Grant, calls int) {
	g.config.Budget.RefundLiveCalls(grant.Key.AccountID, calls, grant.Usage.At)
}

// checkAccess refuses a valid key whose plan has no access, or which lacks a scope.
func (g *Gate) checkAccess(grant *Grant, now time.Time, r Request) *Denial {
	key := grant.Key
	switch {
	case !grant.Plan.APIAccess:
		return deny(CodeNoAccess, "the account's plan has no access to the API: a paid plan is required")
	case !key.PlanEnd.IsZero() && !now.Before(key.PlanEnd):
		return deny(CodeNoAccess, "the account's plan ended: renew it to use the API")
	case key.Scopes&r.RequiredScopes != r.RequiredScopes:
		return deny(CodeScope, "the key lacks the scope %s", strings.Join((r.RequiredScopes&^key.Scopes).Names(), ", "))
	}
	return nil
}
