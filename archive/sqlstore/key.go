package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"sara/policy"
)

// An APIKey is a key as administrators see it. Its text is not stored, and its hash never leaves the database.
type APIKey struct {
	ID        string
	PersonID  string
	Name      string
	Scopes    []string
	Workspace *policy.Workspace // nil: every workspace of its person
	From      policy.Addresses  // none: any address
	CreatedAt time.Time
	ExpiresAt *time.Time // nil for never
	LastUsed  *time.Time // the hour of its last use; nil if it was never used
	RevokedAt *time.Time // nil if it is not revoked; in the future while its replacement overlaps with it
}

// KeySpec describes a key to create.
type KeySpec struct {
	Person    string   // id or e-mail address
	Name      string   // 1 to 80 characters
	Scopes    []string // one or more, each once
	Workspace string   // a reference to one of the person's workspaces; empty for all of them
	From      policy.Addresses
	Hash      policy.Hash
	ExpiresAt *time.Time // nil for never; may be in the past
}

const (
	keyColumns = "k.id, k.person_id, k.name, k.scopes, w.id, w.name, k.allowed_from, k.created_at, k.expires_at, k.revoked_at, k.last_used_at"
	fromKeys   = " FROM api_keys k LEFT JOIN workspaces w ON w.id = k.workspace_id "
	selectKeys = "SELECT " + keyColumns + fromKeys
)

func scanKey(row scanner, k *APIKey) error {
	var scopes, from string
	var workspaceID, workspaceName *string
	err := row.Scan(&k.ID, &k.PersonID, &k.Name, &scopes, &workspaceID, &workspaceName, &from, instant{&k.CreatedAt},
		optionalInstant{&k.ExpiresAt}, optionalInstant{&k.RevokedAt}, optionalInstant{&k.LastUsed})
	if workspaceID != nil && workspaceName != nil {
		k.Workspace = &policy.Workspace{ID: *workspaceID, Name: *workspaceName}
	}
	k.Scopes, k.From = strings.Fields(scopes), policy.StoredAddresses(from)
	return err
}

func findKey(ctx context.Context, tx *sql.Tx, id string) (APIKey, error) {
	return find(ctx, tx, scanKey, &NotFoundError{"key", id}, selectKeys+"WHERE k.id = $1", id)
}

// CreateKey stores a key. It returns a KeyLimitError if the person's account already has limit(plan) keys that are neither revoked nor
// expired. Creation is serialized by account, so concurrent calls cannot exceed the limit.
func (s *Store) CreateKey(ctx context.Context, spec KeySpec, limit func(plan string) int) (k APIKey, err error) {
	if err := errors.Join(checkText("key name", spec.Name, maxName), checkScopes(spec.Scopes)); err != nil {
		return k, err
	}
	defer wrap(&err, "create key %q", spec.Name)
	k = APIKey{ID: newID(), Name: spec.Name, Scopes: slices.Clone(spec.Scopes), From: slices.Clone(spec.From), CreatedAt: s.clock()}
	if spec.ExpiresAt != nil {
		k.ExpiresAt = new(spec.ExpiresAt.UTC().Truncate(time.Millisecond))
	}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		p, err := findPerson(ctx, tx, spec.Person)
		if err != nil {
			return change{}, err
		}
		k.PersonID = p.ID
		var workspaceID any
		if spec.Workspace != "" {
			w, err := findOwnWorkspace(ctx, tx, p, spec.Workspace)
			if err != nil {
				return change{}, err
			}
			k.Workspace, workspaceID = &w.Workspace, w.ID
		}
		if err := checkKeyLimit(ctx, tx, p.AccountID, k.CreatedAt, limit); err != nil {
			return change{}, err
		}
		return k.change("key.create", p), insert(ctx, tx, &ExistsError{"key", spec.Name},
			"INSERT INTO api_keys (id, person_id, workspace_id, name, scopes, allowed_from, hash, created_at, expires_at)"+
				" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
			k.ID, k.PersonID, workspaceID, k.Name, strings.Join(k.Scopes, " "), k.From.String(), spec.Hash[:], k.CreatedAt.UnixMilli(),
			optionalMillis(k.ExpiresAt))
	})
	return k, err
}

// lockAccount returns an account, and locks its row until the end of the transaction, which serializes the creation, rotation and
// revocation of its keys, and the changes that lock several rows below it. It may have been removed meanwhile.
func lockAccount(ctx context.Context, tx *sql.Tx, id string) (Account, error) {
	// SQLite has no FOR UPDATE; an update locks the row in both databases.
	return find(ctx, tx, scanAccount, &NotFoundError{"account", id},
		"UPDATE accounts SET plan = plan WHERE id = $1 RETURNING "+accountColumns, id)
}

// checkKeyLimit locks the account, and counts its working keys.
func checkKeyLimit(ctx context.Context, tx *sql.Tx, accountID string, now time.Time, limit func(plan string) int) error {
	a, err := lockAccount(ctx, tx, accountID)
	if err != nil {
		return err
	}
	working, err := one(ctx, tx, scalar[int], "SELECT count(*) FROM api_keys k JOIN people p ON p.id = k.person_id"+
		" WHERE p.account_id = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $2)",
		accountID, now.UnixMilli())
	if err != nil {
		return err
	}
	if allowed := limit(a.Plan); working >= allowed {
		return &KeyLimitError{Account: a.Name, Plan: a.Plan, Limit: allowed}
	}
	return nil
}

// Keys lists the keys of a person, oldest first, including revoked and expired ones.
func (s *Store) Keys(ctx context.Context, person string) ([]APIKey, error) {
	p, err := findPerson(ctx, s.overview, person)
	if err != nil {
		return nil, err
	}
	keys, err := all(ctx, s.overview, scanKey, selectKeys+"WHERE k.person_id = $1 ORDER BY k.created_at, k.id", p.ID)
	if err != nil {
		return nil, fmt.Errorf("list the keys of %s: %w", p.Email, err)
	}
	return keys, nil
}

// An AccountKey is a key, and the e-mail address of its person.
type AccountKey struct {
	APIKey
	Email string
}

// AccountKeys lists the keys of all people of an account, by person and then oldest first, including revoked and expired ones.
func (s *Store) AccountKeys(ctx context.Context, account string) ([]AccountKey, error) {
	a, err := findAccount(ctx, s.overview, account)
	if err != nil {
		return nil, err
	}
	scan := func(row scanner, k *AccountKey) error { return scanKey(joined{row, []any{&k.Email}}, &k.APIKey) }
	keys, err := all(ctx, s.overview, scan, "SELECT "+keyColumns+", p.email"+fromKeys+"JOIN people p ON p.id = k.person_id"+
		" WHERE p.account_id = $1 ORDER BY p.email, k.created_at, k.id", a.ID)
	if err != nil {
		return nil, fmt.Errorf("list the keys of account %q: %w", a.Name, err)
	}
	return keys, nil
}

// change returns the change of the key, recorded under the account that pays for it.
func (k APIKey) change(action string, p Person) change {
	d := details{"name": k.Name, "person": p.ID, "email": p.Email, "scopes": k.Scopes}
	if len(k.From) > 0 {
		d["from"] = k.From.Names()
	}
	if k.ExpiresAt != nil {
		d["expires_at"] = k.ExpiresAt.Format(time.RFC3339)
	}
	if k.RevokedAt != nil {
		d["revoked_at"] = k.RevokedAt.Format(time.RFC3339)
	}
	return change{action: action, subject: k.ID, account: p.AccountID, details: d}
}

// RestrictKey replaces the addresses that a key can be used from. It is idempotent.
func (s *Store) RestrictKey(ctx context.Context, id string, from policy.Addresses) (k APIKey, err error) {
	defer wrap(&err, "restrict key %q", id)
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		changed, err := affected(ctx, tx, "UPDATE api_keys SET allowed_from = $1 WHERE id = $2 AND allowed_from <> $1", from.String(), id)
		if err != nil {
			return change{}, err
		}
		if k, err = findKey(ctx, tx, id); err != nil || changed == 0 {
			return change{}, err
		}
		p, err := findPerson(ctx, tx, k.PersonID)
		c := k.change("key.update", p)
		c.details["from"] = k.From.Names() // even if empty: any address
		return c, err
	})
	return k, err
}

// checkScopes checks only the format; policy decides which scopes exist.
func checkScopes(scopes []string) error {
	if len(scopes) == 0 {
		return &InputError{"scopes", "a key needs at least one"}
	}
	for i, scope := range scopes {
		if err := checkText("scopes", scope, maxScopeName); err != nil {
			return err
		}
		if strings.ContainsFunc(scope, unicode.IsSpace) {
			return &InputError{"scopes", fmt.Sprintf("%q contains a space", scope)}
		}
		if slices.Contains(scopes[:i], scope) {
			return &InputError{"scopes", fmt.Sprintf("%q is given twice", scope)}
		}
	}
	return nil
}
