package policy

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"time"
)

// Hash is the SHA-256 of a whole key, which is all that is ever stored of it.
type Hash [sha256.Size]byte

// HashKey returns the hash of a key as it is written in a request.
func HashKey(key string) Hash {
	var buffer [maxKeyLength]byte // on the stack
	return sha256.Sum256(append(buffer[:0], key...))
}

// NewKey makes a key: <prefix>_live_<secret>, with 260 bits of randomness. It is shown once, and only its hash is kept.
func NewKey(prefix string) (key string, hash Hash) {
	key = prefix + keyInfix + rand.Text() + rand.Text()
	return key, HashKey(key)
}

const (
	keyInfix       = "_live_"
	maxKeyLength   = 256
	authScheme     = "bearer"
	authSchemeText = "Authorization: Bearer <API_KEY>"
)

// A Key is what the Directory knows of one key and of who stands behind it.
type Key struct {
	ID        string
	Scopes    Scopes
	Workspace *Workspace // nil: every workspace of the person
	PersonID  string
	AccountID string
	PlanName  string
	PlanEnd   time.Time // first instant at which the plan no longer holds; zero for no end
	ExpiresAt time.Time // zero for never
	Revoked   bool
}

// A Workspace is what a key may be restricted to.
type Workspace struct {
	ID, Name string
}

// workspaceID returns the workspace that the key is restricted to, empty for none.
func (k *Key) workspaceID() string {
	if k.Workspace == nil {
		return ""
	}
	return k.Workspace.ID
}

// bearer takes the key out of an Authorization header. It looks at no more than the form.
func bearer(authorization, prefix string) (string, *Denial) {
	scheme, key, _ := strings.Cut(authorization, " ")
	key = strings.TrimSpace(key)
	switch {
	case authorization == "":
		return "", deny(CodeInvalidKey, "the request carries no key: send the header %s", authSchemeText)
	case !strings.EqualFold(scheme, authScheme):
		return "", deny(CodeInvalidKey, "the Authorization header is not of the form %s", authSchemeText)
	case len(key) > maxKeyLength || !strings.HasPrefix(key, prefix+keyInfix):
		return "", deny(CodeInvalidKey, "the key is not one of this service: they begin with %s", prefix+keyInfix)
	}
	return key, nil
}
