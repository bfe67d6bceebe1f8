package policy

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Hash is the SHA-256 of a whole key. The key itself is never stored.
type Hash [sha256.Size]byte

// hashKey returns the hash of a key in the form in which requests carry it.
func hashKey(key string) Hash {
	var buffer [maxKeyLength]byte // on the stack
	return sha256.Sum256(append(buffer[:0], key...))
}

// HashKey returns the hash of the key in an Authorization header, whatever the form of the key. It is the zero hash if there is no key,
// or one that is longer than any.
func HashKey(authorization string) (hash Hash) {
	scheme, key := splitAuthorization(authorization)
	if key == "" || len(key) > maxKeyLength || !strings.EqualFold(scheme, authScheme) {
		return hash
	}
	return hashKey(key)
}

// hash returns the hash of the key in the request.
func (r *Request) hash(key string) Hash {
	if r.KeyHash != (Hash{}) {
		return r.KeyHash
	}
	return hashKey(key)
}

func splitAuthorization(header string) (scheme, key string) {
	scheme, key, _ = strings.Cut(header, " ")
	return scheme, strings.TrimSpace(key)
}

const (
	authScheme     = "bearer"
	authSchemeText = "Authorization: Bearer <API_KEY>"
)

// A Key is an API key, without its secret, and the person and the account that it belongs to. A Key in a Grant is shared
// between requests: read only.
type Key struct {
	ID        string
	Scopes    Scopes
	Workspace *Workspace // the only workspace that the key can reach; nil: every workspace of the person
	From      Addresses  // the only ones that the key can be used from; none: any
	PersonID  string
	AccountID string
	PlanName  string    // of the account
	PlanEnd   time.Time // the instant at which the plan ends; zero: it does not end
	ExpiresAt time.Time // the instant at which the key expires; zero: it does not expire
	RevokedAt time.Time // the instant from which the key counts as revoked; zero: it is not
}

// A Workspace groups the properties of an agency's client; a key may be restricted to one.
type Workspace struct {
	ID, Name string
}

// workspaceID returns the workspace that the key is restricted to, or "" if it is not.
func (k *Key) workspaceID() string {
	if k.Workspace == nil {
		return ""
	}
	return k.Workspace.ID
}

// bearer extracts the key from an Authorization header. It checks only the form.
func bearer(authorization, prefix string) (string, *Denial) {
	scheme, key := splitAuthorization(authorization)
	switch {
	case authorization == "":
		return "", deny(CodeInvalidKey, "the request has no key: send the header %s", authSchemeText)
	case !strings.EqualFold(scheme, authScheme):
		return "", deny(CodeInvalidKey, "the Authorization header is not of the form %s", authSchemeText)
	}
	if denial := checkKeyForm(key, prefix); denial != nil {
		return "", denial
	}
	return key, nil
}

// Scopes is a set of permissions of a key.
type Scopes uint8

// The scopes (spec: Authentication 4).
const (
	PropertiesRead Scopes = 1 << iota
	PerformanceRead
	IndexingRead
	ConfigRead

	AllScopes = PropertiesRead | PerformanceRead | IndexingRead | ConfigRead
)

// name returns the name of a set of exactly one scope, and "" for any other set.
func (s Scopes) name() string {
	switch s {
	case PropertiesRead:
		return "properties:read"
	case PerformanceRead:
		return "performance:read"
	case IndexingRead:
		return "indexing:read"
	case ConfigRead:
		return "config:read"
	}
	return ""
}

// Names returns the names of the scopes in the set, in the order of declaration.
func (s Scopes) Names() []string {
	names := make([]string, 0, 4)
	for one := PropertiesRead; one <= ConfigRead; one <<= 1 {
		if s&one != 0 {
			names = append(names, one.name())
		}
	}
	return names
}

// KnownScopes returns the set of those of the named scopes that exist.
func KnownScopes(names []string) (set Scopes) {
	for one := PropertiesRead; one <= ConfigRead; one <<= 1 {
		if slices.Contains(names, one.name()) {
			set |= one
		}
	}
	return set
}

// ParseScopes returns the set of the named scopes. A name must not be repeated.
func ParseScopes(names []string) (Scopes, error) {
	var set Scopes
	for _, name := range names {
		one := PropertiesRead
		for one <= ConfigRead && one.name() != name {
			one <<= 1
		}
		switch {
		case one > ConfigRead:
			return 0, fmt.Errorf("unknown scope %q: use %s", name, strings.Join(AllScopes.Names(), ", "))
		case set&one != 0:
			return 0, fmt.Errorf("scope %s is given twice", name)
		}
		set |= one
	}
	return set, nil
}
