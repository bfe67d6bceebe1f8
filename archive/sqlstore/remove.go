package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// The kinds of things that Remove removes.
const (
	KindAccount    = "account"
	KindWorkspace  = "workspace"
	KindPerson     = "person"
	KindConnection = "connection"
	KindProperty   = "property"
)

// A Removal is something to remove and everything below it: the IDs of all of it, itself included.
type Removal struct {
	Kind, ID, Name string
	Accounts       []string // one, if the account itself is removed
	Workspaces     []string
	People         []string
	Connections    []string
	Properties     []string
	Keys           []string // of the people, and those that are restricted to one of the workspaces

	account string // the account that owns it
}

// PlanRemoval returns what Remove would remove. The reference is as for the method of that kind, such as Workspace.
func (s *Store) PlanRemoval(ctx context.Context, kind, reference string) (*Removal, error) {
	return planRemoval(ctx, s.overview, kind, reference)
}

// Remove removes something with everything below it, in one transaction: stored credentials are erased, and its keys and properties
// no longer exist. The archived history of removed properties remains until it is deleted; see RemovedProperties.
func (s *Store) Remove(ctx context.Context, kind, reference string) (r *Removal, err error) {
	defer wrap(&err, "remove %s %q", kind, reference)
	err = s.writeWithin(ctx, bulkLimit, func(ctx context.Context, tx *sql.Tx) (change, error) {
		id, err := lockRemoved(ctx, tx, kind, reference)
		if err != nil {
			return change{}, err
		}
		if r, err = planRemoval(ctx, tx, kind, id); err != nil {
			return change{}, err
		}
		if err := r.recordParts(ctx, tx, s); err != nil {
			return change{}, err
		}
		if err := r.holdOff(ctx, tx, s.dialect); err != nil {
			return change{}, err
		}
		if err := r.deleteRows(ctx, tx, s.clock().UnixMilli()); err != nil {
			return change{}, err
		}
		return change{action: kind + ".remove", subject: r.ID, account: r.account, details: details{"name": r.Name, "workspaces": len(r.Workspaces),
			"people": len(r.People), "connections": len(r.Connections), "properties": len(r.Properties), "keys": len(r.Keys)}}, nil
	})
	return r, err
}

// holdOff makes transactions that add rows below the properties wait, such as those of a collector or an inspector, so that none is added
// while they are deleted. SQLite has one writer at a time.
func (r *Removal) holdOff(ctx context.Context, tx *sql.Tx, d dialect) error {
	if d != postgresDialect {
		return nil
	}
	for _, id := range r.Properties {
		for _, table := range []string{"properties WHERE id", "index_states WHERE property_id"} {
			if _, err := tx.ExecContext(ctx, "SELECT 1 FROM "+table+" = $1 FOR UPDATE", id); err != nil {
				return fmt.Errorf("lock property %s: %w", id, err)
			}
		}
	}
	return nil
}

// lockRemoved locks the account of what is removed. Changes of its keys also lock the account first: in different orders, the two could
// deadlock. It returns the ID, because meanwhile a name may have become that of something else, in another account.
func lockRemoved(ctx context.Context, tx *sql.Tx, kind, reference string) (id string, err error) {
	r := &Removal{Kind: kind}
	if err := r.find(ctx, tx, reference); err != nil {
		return "", err
	}
	_, err = lockAccount(ctx, tx, r.account)
	return r.ID, err
}

func planRemoval(ctx context.Context, q querier, kind, reference string) (*Removal, error) {
	r := &Removal{Kind: kind}
	if err := r.find(ctx, q, reference); err != nil {
		return nil, err
	}
	for _, below := range []struct {
		ids, parents *[]string
		query        string
	}{
		{&r.Workspaces, &r.Accounts, "SELECT id FROM workspaces WHERE account_id = $1 ORDER BY id"},
		{&r.People, &r.Accounts, "SELECT id FROM people WHERE account_id = $1 ORDER BY id"},
		{&r.Keys, &r.People, "SELECT id FROM api_keys WHERE person_id = $1 ORDER BY id"},
		{&r.Keys, &r.Workspaces, "SELECT id FROM api_keys WHERE workspace_id = $1 ORDER BY id"},
		{&r.Connections, &r.Workspaces, "SELECT id FROM connections WHERE workspace_id = $1 ORDER BY id"},
		{&r.Properties, &r.Connections, "SELECT id FROM properties WHERE connection_id = $1 ORDER BY id"},
	} {
		for _, parent := range *below.parents {
			found, err := all(ctx, q, scalar[string], below.query, parent)
			if err != nil {
				return nil, fmt.Errorf("list what is below %s %q: %w", kind, reference, err)
			}
			*below.ids = append(*below.ids, found...)
		}
	}
	slices.Sort(r.Connections) // Reseal locks them in this order: in another one, both would wait for each other
	slices.Sort(r.Keys)
	r.Keys = slices.Compact(r.Keys) // a person of the account may have a key restricted to one of its workspaces
	return r, nil
}

// find resolves the reference.
func (r *Removal) find(ctx context.Context, q querier, reference string) error {
	switch r.Kind {
	case KindAccount:
		a, err := findAccount(ctx, q, reference)
		r.ID, r.Name, r.account, r.Accounts = a.ID, a.Name, a.ID, []string{a.ID}
		return err
	case KindWorkspace:
		w, err := findWorkspace(ctx, q, reference, "")
		r.ID, r.Name, r.account, r.Workspaces = w.ID, w.Name, w.AccountID, []string{w.ID}
		return err
	case KindPerson:
		p, err := findPerson(ctx, q, reference)
		r.ID, r.Name, r.account, r.People = p.ID, p.Email, p.AccountID, []string{p.ID}
		return err
	case KindConnection:
		c, err := findConnection(ctx, q, reference)
		r.ID, r.Name, r.account, r.Connections = c.ID, c.Name, c.AccountID, []string{c.ID}
		return err
	case KindProperty:
		p, err := findProperty(ctx, q, reference)
		if err != nil {
			return err
		}
		r.ID, r.Name, r.Properties = p.ID, p.Site, []string{p.ID}
		r.account, err = one(ctx, q, scalar[string], "SELECT account_id FROM workspaces WHERE id = $1", p.WorkspaceID)
		return err
	}
	return &InputError{"kind", fmt.Sprintf("%q cannot be removed", r.Kind)}
}

// recordParts records each part that has its own name, except r itself.
func (r *Removal) recordParts(ctx context.Context, tx *sql.Tx, s *Store) error {
	with := r.Kind + " " + r.Name
	if err := r.recordKeys(ctx, tx, s, with); err != nil {
		return err
	}
	for _, part := range []struct {
		kind, query string
		ids         []string
	}{
		{KindWorkspace, "SELECT name FROM workspaces WHERE id = $1", r.Workspaces},
		{KindPerson, "SELECT email FROM people WHERE id = $1", r.People},
		{KindConnection, "SELECT name FROM connections WHERE id = $1", r.Connections},
		{KindProperty, "SELECT site FROM properties WHERE id = $1", r.Properties},
	} {
		for _, id := range part.ids {
			if id == r.ID {
				continue
			}
			name, err := one(ctx, tx, scalar[string], part.query, id)
			if err != nil {
				return err
			}
			err = s.record(ctx, tx, change{action: part.kind + ".remove", subject: id, account: r.account,
				details: details{"name": name, "with": with}})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// recordKeys records each key under the account that pays for it, which for a guest of a workspace is a different one.
func (r *Removal) recordKeys(ctx context.Context, tx *sql.Tx, s *Store, with string) error {
	for _, id := range r.Keys {
		k, err := findKey(ctx, tx, id)
		if err != nil {
			return err
		}
		p, err := findPerson(ctx, tx, k.PersonID)
		if err != nil {
			return err
		}
		c := k.change("key.remove", p)
		c.details["with"] = with
		if err := s.record(ctx, tx, c); err != nil {
			return err
		}
	}
	return nil
}

// deleteRows deletes from the leaves to the root, so no foreign key is left dangling.
func (r *Removal) deleteRows(ctx context.Context, tx *sql.Tx, now int64) error {
	const byNumber = " WHERE number IN (SELECT number FROM index_states WHERE property_id = $1)"
	for _, step := range []struct {
		ids        []string
		statements []string
	}{
		{r.Properties, []string{
			"DELETE FROM index_counts" + byNumber, "DELETE FROM index_days" + byNumber, "DELETE FROM staged_inspections" + byNumber,
			"DELETE FROM indexed_urls" + byNumber, "DELETE FROM index_sitemap_sets" + byNumber, "DELETE FROM index_sitemaps" + byNumber,
			"DELETE FROM index_states WHERE property_id = $1", "DELETE FROM archive_states WHERE property_id = $1",
			"DELETE FROM brand_terms WHERE property_id = $1", "DELETE FROM page_groups WHERE property_id = $1",
			"DELETE FROM annotations WHERE property_id = $1",
			"DELETE FROM property_shares WHERE property_id = $1", "DELETE FROM properties WHERE id = $1",
		}},
		{r.Keys, []string{"DELETE FROM api_keys WHERE id = $1"}},
		{r.Connections, []string{"DELETE FROM connections WHERE id = $1"}},
		{r.People, []string{"DELETE FROM memberships WHERE person_id = $1", "DELETE FROM people WHERE id = $1"}},
		{r.Workspaces, []string{"DELETE FROM memberships WHERE workspace_id = $1", "DELETE FROM property_shares WHERE workspace_id = $1",
			"DELETE FROM workspaces WHERE id = $1"}},
		{r.Accounts, []string{"DELETE FROM usage_counts WHERE account_id = $1", "DELETE FROM replica_usage WHERE account_id = $1",
			"DELETE FROM accounts WHERE id = $1"}},
	} {
		for _, id := range step.ids {
			for _, statement := range step.statements {
				if _, err := tx.ExecContext(ctx, statement, id); err != nil {
					return fmt.Errorf("%s: %w", statement, err)
				}
			}
		}
	}
	for _, id := range r.Properties {
		if _, err := tx.ExecContext(ctx, "INSERT INTO removed_properties (id, removed_at) VALUES ($1, $2)", id, now); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM status_look") // it may name what is removed
	return err
}
