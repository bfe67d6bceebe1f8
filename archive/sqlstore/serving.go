package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"sara/policy"
	"sara/translate"
)

var _ policy.Directory = (*Store)(nil)

const selectKeyByHash = "SELECT k.id, k.scopes, k.workspace_id, w.name, k.expires_at, k.revoked_at IS NOT NULL, p.id, a.id, a.plan," +
	" a.until_day FROM api_keys k JOIN people p ON p.id = k.person_id JOIN accounts a ON a.id = p.account_id" +
	" LEFT JOIN workspaces w ON w.id = k.workspace_id WHERE k.hash = $1"

func scanPolicyKey(row scanner) (k policy.Key, err error) {
	var scopes string
	var workspaceID, workspaceName *string
	var expires *time.Time
	var until *translate.Date
	err = row.Scan(&k.ID, &scopes, &workspaceID, &workspaceName, optionalInstant{&expires}, &k.Revoked, &k.PersonID, &k.AccountID,
		&k.PlanName, &until)
	if err != nil {
		return k, err
	}
	if workspaceID != nil && workspaceName != nil {
		k.Workspace = &policy.Workspace{ID: *workspaceID, Name: *workspaceName}
	}
	if expires != nil {
		k.ExpiresAt = *expires
	}
	if until != nil {
		// The last day is included, in UTC: the plan ends at the first instant of the day after.
		k.PlanEnd = (*until + 1).Time()
	}
	if k.Scopes, err = policy.ParseScopes(strings.Fields(scopes)); err != nil {
		err = fmt.Errorf("key %s: %w", k.ID, err)
	}
	return k, err
}

// Key implements policy.Directory.
func (s *Store) Key(ctx context.Context, hash policy.Hash) (policy.Key, error) {
	k, err := one(ctx, s.db, scanPolicyKey, selectKeyByHash, hash[:])
	if errors.Is(err, sql.ErrNoRows) {
		return policy.Key{}, policy.ErrUnknown
	}
	if err != nil {
		return policy.Key{}, fmt.Errorf("look up an API key: %w", err)
	}
	return k, nil
}

const (
	// A join would be equivalent, but both planners would then walk all properties of the person. Counting memberships row by row
	// makes them start from the reference.
	findReachable = selectProperties + "WHERE " + mayMean +
		" AND (SELECT count(*) FROM memberships m WHERE m.person_id = $3 AND m.workspace_id = p.workspace_id) > 0" +
		" AND ($4 = '' OR p.workspace_id = $4) ORDER BY p.name_order"

	reachable = " FROM memberships m JOIN properties p ON p.workspace_id = m.workspace_id" +
		" WHERE m.person_id = $1 AND ($2 = '' OR m.workspace_id = $2) AND ($3 OR NOT p.archived)"
	countReachable = "SELECT count(*)" + reachable
	// OFFSET and LIMIT apply before connections are joined, so that skipped rows are cheap.
	pageReachable = "SELECT " + propertyColumns + " FROM (SELECT p.id" + reachable + " ORDER BY p.name_order LIMIT $4 OFFSET $5) page" +
		" JOIN properties p ON p.id = page.id JOIN connections c ON c.id = p.connection_id ORDER BY p.name_order"
)

// FindProperties implements policy.Directory. An ID or a Host is matched case-insensitively, a Site or a Slug as written.
// Archived properties are included.
func (s *Store) FindProperties(ctx context.Context, personID, workspaceID, reference string) ([]policy.Property, error) {
	scan := func(row scanner) (policy.Property, error) {
		p, err := scanProperty(row)
		return p.Property, err
	}
	properties, err := all(ctx, s.db, scan, findReachable, strings.ToLower(reference), reference, personID, workspaceID)
	if err != nil {
		// The reference is untrusted input, perhaps a key pasted by mistake: it must not end up in logs.
		return nil, fmt.Errorf("find a property: %w", err)
	}
	return properties, nil
}

// ReachableProperties returns a page of the distinct properties that the person can reach, and their total. They are ordered by
// display name in lower case, compared by bytes, then by id. A workspaceID restricts them to that workspace.
func (s *Store) ReachableProperties(ctx context.Context, personID, workspaceID string, includeArchived bool,
	limit, offset int) (page []Property, total int, err error) {
	total, err = one(ctx, s.db, scalar[int], countReachable, personID, workspaceID, includeArchived)
	if err != nil {
		return nil, 0, fmt.Errorf("count the properties of person %s: %w", personID, err)
	}
	page, err = all(ctx, s.db, scanProperty, pageReachable, personID, workspaceID, includeArchived, limit, offset)
	if err != nil {
		return nil, 0, fmt.Errorf("list the properties of person %s: %w", personID, err)
	}
	return page, total, nil
}
