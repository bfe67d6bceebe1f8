package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"sara/policy"
)

// RevokeKey revokes a key permanently, with immediate effect. It is idempotent.
func (s *Store) RevokeKey(ctx context.Context, id string) (k APIKey, err error) {
	defer wrap(&err, "revoke key %q", id)
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		p, err := lockKey(ctx, tx, id)
		if err != nil {
			return change{}, err
		}
		revoked, err := endKey(ctx, tx, id, s.clock())
		if err != nil {
			return change{}, err
		}
		k, err = findKey(ctx, tx, id)
		if err != nil || !revoked {
			return change{}, err
		}
		return k.change("key.revoke", p), nil
	})
	return k, err
}

// lockKey returns the person of a key, and locks the person's account: see lockAccount.
func lockKey(ctx context.Context, tx *sql.Tx, id string) (Person, error) {
	p, err := personOfKey(ctx, tx, id)
	if err != nil {
		return p, err
	}
	if _, err := lockAccount(ctx, tx, p.AccountID); err != nil {
		return p, err
	}
	return personOfKey(ctx, tx, id) // it may have been removed meanwhile
}

func personOfKey(ctx context.Context, q querier, id string) (Person, error) {
	return find(ctx, q, scanPerson, &NotFoundError{"key", id},
		"SELECT "+personColumns+" FROM people WHERE id = (SELECT person_id FROM api_keys WHERE id = $1)", id)
}

// endKey sets the time at which a key ends, unless it already ends earlier; then changed is false.
func endKey(ctx context.Context, tx *sql.Tx, id string, at time.Time) (changed bool, err error) {
	ended, err := affected(ctx, tx, "UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND (revoked_at IS NULL OR revoked_at > $1)", at.UnixMilli(), id)
	return ended > 0, err
}

// RevokeKeys revokes all keys of a person, and returns those that it revoked, in the order of their IDs: see lockKeys. It is idempotent.
func (s *Store) RevokeKeys(ctx context.Context, person string) (revoked []APIKey, err error) {
	defer wrap(&err, "revoke the keys of %q", person)
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		p, err := findPerson(ctx, tx, person)
		if err != nil {
			return change{}, err
		}
		if _, err := lockAccount(ctx, tx, p.AccountID); err != nil {
			return change{}, err
		}
		now := s.clock()
		revoked = nil
		ids, err := all(ctx, tx, scalar[string],
			"SELECT id FROM api_keys WHERE person_id = $1 AND (revoked_at IS NULL OR revoked_at > $2) ORDER BY id",
			p.ID, now.UnixMilli())
		if err != nil {
			return change{}, err
		}
		for _, id := range ids {
			if _, err := endKey(ctx, tx, id, now); err != nil {
				return change{}, err
			}
			k, err := findKey(ctx, tx, id)
			if err != nil {
				return change{}, err
			}
			if err := s.record(ctx, tx, k.change("key.revoke", p)); err != nil {
				return change{}, err
			}
			revoked = append(revoked, k)
		}
		return change{}, nil
	})
	return revoked, err
}

// RotateKey replaces a key with one that has the same person, scopes, workspace, addresses and name, and the given hash. The old key works
// for the overlap, and then counts as revoked. The limit of the plan does not apply, because the old key no longer counts. A key that
// is revoked or expired is a ConflictError. The new key's lifetime is that of the old one, but at most maxDays, if that
// is not 0.
func (s *Store) RotateKey(ctx context.Context, id string, hash policy.Hash, overlap time.Duration, maxDays int) (k, old APIKey, err error) {
	defer wrap(&err, "rotate key %q", id)
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		p, err := lockKey(ctx, tx, id)
		if err != nil {
			return change{}, err
		}
		now := s.clock()
		if old, err = findKey(ctx, tx, id); err != nil {
			return change{}, err
		}
		if problem := old.notWorking(now); problem != "" {
			return change{}, &ConflictError{"key", problem + ": create another one"}
		}
		if _, err := endKey(ctx, tx, id, now.Add(overlap)); err != nil {
			return change{}, err
		}
		k = old.successor(now, maxDays)
		// workspace_id may be NULL, so it is copied in SQL.
		_, err = tx.ExecContext(ctx, "INSERT INTO api_keys (id, person_id, workspace_id, name, scopes, allowed_from, hash, created_at, expires_at)"+
			" SELECT $1, person_id, workspace_id, name, scopes, allowed_from, $2, $3, $4 FROM api_keys WHERE id = $5",
			k.ID, hash[:], now.UnixMilli(), optionalMillis(k.ExpiresAt), old.ID)
		if err != nil {
			return change{}, err
		}
		if old, err = findKey(ctx, tx, id); err != nil {
			return change{}, err
		}
		c := k.change("key.rotate", p)
		c.details["replaces"], c.details["replaced_until"] = old.ID, old.RevokedAt.Format(time.RFC3339)
		return c, nil
	})
	return k, old, err
}

// notWorking returns why a key cannot be rotated; empty if it can.
func (k APIKey) notWorking(now time.Time) string {
	switch {
	case k.RevokedAt != nil && k.RevokedAt.After(now):
		return "it has already been rotated, and ends at " + k.RevokedAt.Format(time.RFC3339)
	case k.RevokedAt != nil:
		return "it is revoked"
	case k.ExpiresAt != nil && !k.ExpiresAt.After(now):
		return "it has expired"
	}
	return ""
}

// successor returns the key that replaces k. It expires after at most maxDays, if that is not 0.
func (k APIKey) successor(now time.Time, maxDays int) APIKey {
	next := k
	next.ID, next.CreatedAt, next.RevokedAt, next.LastUsed = newID(), now, nil, nil
	if k.ExpiresAt != nil {
		next.ExpiresAt = new(now.Add(k.ExpiresAt.Sub(k.CreatedAt)))
	}
	if latest := now.AddDate(0, 0, maxDays); maxDays > 0 && (next.ExpiresAt == nil || next.ExpiresAt.After(latest)) {
		next.ExpiresAt = &latest
	}
	return next
}
