package sqlstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"sara/policy"
	"sara/translate"
)

var _ policy.Directory = (*Store)(nil)

// The hashes are one argument, so the database prepares one statement for any number of them.
const selectKeysByHash = "SELECT k.hash, k.id, k.scopes, k.workspace_id, w.name, k.allowed_from, k.expires_at, k.revoked_at, p.id, a.id," +
	" a.plan, a.until_day FROM api_keys k JOIN people p ON p.id = k.person_id JOIN accounts a ON a.id = p.account_id" +
	" LEFT JOIN workspaces w ON w.id = k.workspace_id WHERE k.hash "

// isOneOf returns the end of selectKeysByHash, and its argument.
func (d dialect) isOneOf(hashes []policy.Hash) (condition string, list any) {
	if d == postgresDialect {
		list := make([][]byte, len(hashes))
		for i := range hashes {
			list[i] = hashes[i][:]
		}
		return "= ANY($1::bytea[])", list
	}
	text := []byte{'['}
	for i := range hashes {
		text = append(hex.AppendEncode(append(text, '"'), hashes[i][:]), `",`...)
	}
	text[len(text)-1] = ']' // instead of the last comma: there is at least one hash
	return "IN (SELECT unhex(value) FROM json_each($1))", string(text)
}

type hashedKey struct {
	hash policy.Hash
	key  policy.Key
}

func scanHashedKey(row scanner, h *hashedKey) error {
	var hash []byte
	var scopes, from string
	var workspaceID, workspaceName *string
	var expires, revoked *time.Time
	var until *translate.Date
	k := &h.key
	err := row.Scan(&hash, &k.ID, &scopes, &workspaceID, &workspaceName, &from, optionalInstant{&expires}, optionalInstant{&revoked}, &k.PersonID,
		&k.AccountID, &k.PlanName, &until)
	if err != nil {
		return err
	}
	copy(h.hash[:], hash)
	if workspaceID != nil && workspaceName != nil {
		k.Workspace = &policy.Workspace{ID: *workspaceID, Name: *workspaceName}
	}
	if expires != nil {
		k.ExpiresAt = *expires
	}
	if revoked != nil {
		k.RevokedAt = *revoked
	}
	if until != nil {
		// The last day is included, in UTC: the plan ends at the first instant of the following day.
		k.PlanEnd = (*until + 1).Time()
	}
	k.Scopes, k.From = policy.KnownScopes(strings.Fields(scopes)), policy.StoredAddresses(from)
	return nil
}

// FindKeys implements policy.Directory. A scope that this version does not know grants nothing, and does not make the query fail for
// the other keys.
func (s *Store) FindKeys(ctx context.Context, hashes []policy.Hash) (map[policy.Hash]policy.Key, error) {
	if len(hashes) == 0 {
		return nil, nil
	}
	condition, list := s.dialect.isOneOf(hashes)
	rows, err := all(ctx, s.keys, scanHashedKey, selectKeysByHash+condition, list)
	if err != nil {
		return nil, fmt.Errorf("look up API keys: %w", err)
	}
	keys := make(map[policy.Hash]policy.Key, len(rows))
	for _, row := range rows {
		keys[row.hash] = row.key
	}
	return keys, nil
}

// selectKeyHashes needs only the index of the hashes.
const selectKeyHashes = "SELECT hash FROM api_keys LIMIT $1"

// KeyHashes implements policy.Directory.
func (s *Store) KeyHashes(ctx context.Context, limit int) (_ []policy.Hash, err error) {
	defer wrap(&err, "list the hashes of API keys")
	scan := func(row scanner, hash *policy.Hash) error {
		var raw []byte
		err := row.Scan(&raw)
		copy(hash[:], raw)
		return err
	}
	return all(ctx, s.keys, scan, selectKeyHashes, limit)
}

const (
	// Joins would be equivalent, but both planners would then walk all properties of the person. Counting memberships row by row
	// makes them start from the reference. A property is reached through its own workspace, or one that it is shared with.
	findReachable = selectProperties + "WHERE " + mayMean +
		" AND ((SELECT count(*) FROM memberships m WHERE " + isMember + " AND m.workspace_id = p.workspace_id) > 0" +
		" OR (SELECT count(*) FROM property_shares s JOIN memberships m ON m.workspace_id = s.workspace_id" +
		" WHERE s.property_id = p.id AND " + isMember + ") > 0)" + byName

	// isMember is the condition that a membership is the person's, and of the workspace that they ask for.
	isMember = "m.person_id = @person AND (@workspace = '' OR m.workspace_id = @workspace)"

	// Shared properties that the person also reaches through their own workspace are only in the first part.
	reachable = "SELECT p.id, p.name_order FROM memberships m JOIN properties p ON p.workspace_id = m.workspace_id" +
		" WHERE " + isMember + " AND (@archived OR NOT p.archived)" +
		" UNION ALL SELECT p.id, p.name_order FROM properties p WHERE p.id IN (SELECT s.property_id FROM memberships m" +
		" JOIN property_shares s ON s.workspace_id = m.workspace_id WHERE " + isMember + ")" +
		" AND (SELECT count(*) FROM memberships m WHERE " + isMember + " AND m.workspace_id = p.workspace_id) = 0" +
		" AND (@archived OR NOT p.archived)"
	countReachable = "SELECT count(*) FROM (" + reachable + ") found"
	// OFFSET and LIMIT apply before connections are joined, so skipped rows are cheap.
	pageReachable = "SELECT " + propertyColumns +
		" FROM (SELECT id FROM (" + reachable + ") found ORDER BY name_order LIMIT @limit OFFSET @offset) page" +
		" JOIN properties p ON p.id = page.id JOIN connections c ON c.id = p.connection_id" + byName
)

// FindProperties implements policy.Directory. An ID or a Host is matched case-insensitively, a Site or a Slug as written.
// Archived properties are included.
func (s *Store) FindProperties(ctx context.Context, personID, workspaceID, reference string) ([]policy.Property, error) {
	scan := func(row scanner, found *policy.Property) error {
		var p Property
		err := scanProperty(row, &p)
		*found = p.Property
		return err
	}
	properties, err := all(ctx, s.properties, scan, findReachable,
		named{"lower": strings.ToLower(reference), "written": reference, "person": personID, "workspace": workspaceID})
	if err != nil {
		// The reference is untrusted input, perhaps a key pasted by mistake: it must not end up in logs.
		return nil, fmt.Errorf("find a property: %w", err)
	}
	return properties, nil
}

// A Reach selects the distinct properties that a person can reach.
type Reach struct {
	PersonID    string
	WorkspaceID string // only those of this workspace; empty: of any
	Archived    bool   // archived ones, too
}

func (r Reach) values() named {
	return named{"person": r.PersonID, "workspace": r.WorkspaceID, "archived": r.Archived}
}

// CountReachable returns how many properties r selects.
func (s *Store) CountReachable(ctx context.Context, r Reach) (int, error) {
	n, err := one(ctx, s.listings, scalar[int], countReachable, r.values())
	if err != nil {
		return 0, fmt.Errorf("count the properties of person %s: %w", r.PersonID, err)
	}
	return n, nil
}

// ReachableProperties returns a page of the properties that r selects. They are ordered by display name in lower case, compared by bytes, then by id.
func (s *Store) ReachableProperties(ctx context.Context, r Reach, limit, offset int) ([]Property, error) {
	values := r.values()
	values["limit"], values["offset"] = limit, offset
	page, err := all(ctx, s.listings, scanProperty, pageReachable, values)
	if err != nil {
		return nil, fmt.Errorf("list the properties of person %s: %w", r.PersonID, err)
	}
	return page, nil
}
