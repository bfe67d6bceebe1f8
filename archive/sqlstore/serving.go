package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"sara/translate"
)

// A KeyRecord is all that admitting a request needs to know of its key. The key may be revoked or expired and the plan
// over: the caller judges by its own clock.
type KeyRecord struct {
	KeyID     string
	Scopes    []string
	Workspace *WorkspaceScope // nil when the key reaches all that its person reaches
	ExpiresAt *time.Time      // nil when it does not expire
	RevokedAt *time.Time      // nil when it is not revoked
	PersonID  string
	AccountID string
	Plan      string
	Until     *translate.Date // last day of the plan, included, in UTC; nil when it does not end
}

// WorkspaceScope is the one workspace that a key is limited to. Its person may have left it since.
type WorkspaceScope struct {
	ID   string
	Name string
}

const selectKeyRecord = "SELECT k.id, k.scopes, k.workspace_id, w.name, k.expires_at, k.revoked_at, p.id, a.id, a.plan," +
	" a.until_day FROM api_keys k JOIN people p ON p.id = k.person_id JOIN accounts a ON a.id = p.account_id" +
	" LEFT JOIN workspaces w ON w.id = k.workspace_id WHERE k.hash = $1"

func scanKeyRecord(row scanner) (k KeyRecord, err error) {
	var scopes string
	var workspaceID, workspaceName *string
	err = row.Scan(&k.KeyID, &scopes, &workspaceID, &workspaceName, optionalInstant{&k.ExpiresAt}, optionalInstant{&k.RevokedAt},
		&k.PersonID, &k.AccountID, &k.Plan, &k.Until)
	if workspaceID != nil && workspaceName != nil {
		k.Workspace = &WorkspaceScope{*workspaceID, *workspaceName}
	}
	k.Scopes = strings.Fields(scopes)
	return k, err
}

// KeyByHash returns the key whose whole text has this SHA-256, or ErrNotFound.
func (s *Store) KeyByHash(ctx context.Context, hash [32]byte) (KeyRecord, error) {
	k, err := one(ctx, s.db, scanKeyRecord, selectKeyRecord, hash[:])
	if errors.Is(err, sql.ErrNoRows) {
		return KeyRecord{}, ErrNotFound
	}
	if err != nil {
		return KeyRecord{}, fmt.Errorf("look up an API key: %w", err)
	}
	return k, nil
}

const (
	// Counting memberships row by row, where a join would say the same, keeps both planners from walking through all
	// that the person reaches.
	findReachable = selectProperties + "WHERE " + mayMean +
		" AND (SELECT count(*) FROM memberships m WHERE m.person_id = $3 AND m.workspace_id = p.workspace_id) > 0" +
		" AND ($4 = '' OR p.workspace_id = $4) ORDER BY p.name_order"

	reachable = " FROM memberships m JOIN properties p ON p.workspace_id = m.workspace_id" +
		" WHERE m.person_id = $1 AND ($2 = '' OR m.workspace_id = $2) AND ($3 OR NOT p.archived)"
	countReachable = "SELECT count(*)" + reachable
	// The page is cut before the connections are joined, so that rows that are skipped cost little.
	pageReachable = "SELECT " + propertyColumns + " FROM (SELECT p.id" + reachable + " ORDER BY p.name_order LIMIT $4 OFFSET $5) page" +
		" JOIN properties p ON p.id = page.id JOIN connections c ON c.id = p.connection_id ORDER BY p.name_order"
)

// FindProperties returns every property that the reference may mean among those that the person reaches, archived ones
// too, in the order of ReachableProperties: by ID or Host whatever the case, by Site or Slug as written. Which of these
// it was shows in the property's fields; the caller knows which of them goes first. With a workspaceID only that
// workspace counts.
func (s *Store) FindProperties(ctx context.Context, personID, workspaceID, reference string) ([]Property, error) {
	found, err := all(ctx, s.db, scanProperty, findReachable, strings.ToLower(reference), reference, personID, workspaceID)
	if err != nil {
		// The reference comes from a stranger, who may have put a key there by mistake: errors end up in logs.
		return nil, fmt.Errorf("find a property: %w", err)
	}
	return found, nil
}

// ReachableProperties returns a page of the properties that the person reaches, each once, and how many there are in
// all. They are sorted by display name in lower case, byte by byte, and then by id. With a workspaceID only that
// workspace counts.
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
