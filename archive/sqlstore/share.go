package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
)

// ShareProperty lets the members of another workspace, of any account, reach a property, which is still connected and collected once. It
// is idempotent.
func (s *Store) ShareProperty(ctx context.Context, property, workspace string) (err error) {
	defer wrap(&err, "share property %q with workspace %q", property, workspace)
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		p, w, err := findShare(ctx, tx, property, workspace)
		if err != nil {
			return change{}, err
		}
		if p.WorkspaceID == w.ID {
			return change{}, &ConflictError{"workspace", fmt.Sprintf("%q is the property's own: its members can already reach it", w.Name)}
		}
		added, err := affected(ctx, tx, "INSERT INTO property_shares (property_id, workspace_id) VALUES ($1, $2)"+
			" ON CONFLICT (property_id, workspace_id) DO NOTHING", p.ID, w.ID)
		if err != nil || added == 0 {
			return change{}, err
		}
		return p.shareChange("property.share", w), nil
	})
}

// UnshareProperty reverts ShareProperty. It is idempotent.
func (s *Store) UnshareProperty(ctx context.Context, property, workspace string) (err error) {
	defer wrap(&err, "stop sharing property %q with workspace %q", property, workspace)
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		p, w, err := findShare(ctx, tx, property, workspace)
		if err != nil {
			return change{}, err
		}
		removed, err := affected(ctx, tx, "DELETE FROM property_shares WHERE property_id = $1 AND workspace_id = $2", p.ID, w.ID)
		if err != nil || removed == 0 {
			return change{}, err
		}
		return p.shareChange("property.unshare", w), nil
	})
}

func findShare(ctx context.Context, tx *sql.Tx, property, workspace string) (p Property, w Workspace, err error) {
	if p, err = findProperty(ctx, tx, property); err == nil {
		w, err = findWorkspace(ctx, tx, workspace, "")
	}
	return p, w, err
}

func (p Property) shareChange(action string, w Workspace) change {
	c := p.change(action)
	c.details["shared_with"] = w.AccountName + "/" + w.Name
	return c
}

// A Share is a workspace with which a property is shared.
type Share struct {
	PropertyID string
	Workspace  Workspace
}

// PropertyShares lists the shares of all properties, by property and then by age of the workspace.
func (s *Store) PropertyShares(ctx context.Context) (_ []Share, err error) {
	defer wrap(&err, "list the shares of properties")
	scan := func(row scanner, share *Share) error {
		return scanWorkspace(joined{row, []any{&share.PropertyID}}, &share.Workspace)
	}
	return all(ctx, s.overview, scan, "SELECT "+workspaceColumns+", s.property_id"+fromWorkspaces+
		"JOIN property_shares s ON s.workspace_id = w.id ORDER BY s.property_id, w.created_at, w.id")
}

// MoveProperty moves a property to another connection, and so to that connection's workspace, with its history, URLs and settings.
// It keeps its slug, unless that is in use there. permission is that of the new connection; it may be empty.
func (s *Store) MoveProperty(ctx context.Context, property, connection, permission string) (p Property, err error) {
	defer wrap(&err, "move property %q to connection %q", property, connection)
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		c, err := findConnection(ctx, tx, connection)
		if err != nil {
			return change{}, err
		}
		var before Connection
		if p, before, err = lockProperty(ctx, tx, property); err != nil {
			return change{}, err
		}
		if c.ID == before.ID {
			return change{}, &ConflictError{"connection", fmt.Sprintf("%q is the property's own already", c.Name)}
		}
		if err := moveProperty(ctx, tx, p, c, permission); err != nil {
			return change{}, err
		}
		if p, err = findProperty(ctx, tx, p.ID); err != nil {
			return change{}, err
		}
		moved := p.change("property.move")
		moved.details["from"] = before.ID
		if before.AccountID != c.AccountID { // the account that loses it sees the change too
			lost := moved
			lost.workspace, lost.account = "", before.AccountID
			err = s.record(ctx, tx, lost)
		}
		return moved, err
	})
	return p, err
}

// lockProperty returns a property with its connection, and locks their account until the end of the transaction, as removals do: otherwise
// a removal that found the property in this account would remove it from the one to which it was moved.
func lockProperty(ctx context.Context, tx *sql.Tx, reference string) (p Property, c Connection, err error) {
	if p, err = findProperty(ctx, tx, reference); err != nil {
		return p, c, err
	}
	if c, err = findConnection(ctx, tx, p.Connection.ID); err != nil {
		return p, c, err
	}
	if _, err = lockAccount(ctx, tx, c.AccountID); err != nil {
		return p, c, err
	}
	p, err = findProperty(ctx, tx, p.ID) // it may have been removed meanwhile
	return p, c, err
}

func moveProperty(ctx context.Context, tx *sql.Tx, p Property, c Connection, permission string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM property_shares WHERE property_id = $1 AND workspace_id = $2", p.ID, c.WorkspaceID); err != nil {
		return err
	}
	_, err := firstFree("slug", "", p.Slug, maxSlug, func(slug string) (int64, error) {
		taken, err := one(ctx, tx, scalar[int], "SELECT count(*) FROM properties WHERE workspace_id = $1 AND slug = $2 AND id <> $3",
			c.WorkspaceID, slug, p.ID)
		if err != nil || taken > 0 {
			return 0, err
		}
		return affected(ctx, tx, "UPDATE properties SET connection_id = $1, workspace_id = $2, slug = $3, permission_level = $4, "+
			"access_note = '' WHERE id = $5", c.ID, c.WorkspaceID, slug, permission, p.ID)
	})
	if isUniqueViolation(err) {
		return &ExistsError{"property", p.Site}
	}
	return err
}
