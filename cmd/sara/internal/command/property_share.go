package command

import (
	"context"
	"strings"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/admin"
	"sara/cmd/sara/internal/console"
)

type propertyShare struct {
	recordFlags
	Property   string   `arg:"" help:"Id, Search Console property, slug or domain; with a star, such as 'client1-*', all that match."`
	Workspaces []string `arg:"" name:"workspace" help:"Name, ACCOUNT/NAME or id; may be repeated."`
	Off        bool     `help:"Stop sharing it with these workspaces."`
}

// shareRecord is a property with the workspaces whose members reach it besides those of its own.
type shareRecord struct {
	ID          string           `json:"id"`
	GSCProperty string           `json:"gsc_property"`
	Slug        string           `json:"slug"`
	SharedWith  []workspaceScope `json:"shared_with"`
}

// Optional lists what a narrow terminal does not show.
func (shareRecord) Optional() []string { return []string{"ID"} }

func (r shareRecord) Columns() []console.Column {
	names := console.Each(r.SharedWith, func(w workspaceScope) string { return w.Name })
	return []console.Column{{"GSC PROPERTY", r.GSCProperty}, {"SLUG", r.Slug}, {"SHARED WITH", strings.Join(names, " ")}, {"ID", r.ID}}
}

func (c *propertyShare) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		properties, err := admin.Admin{Store: store}.Properties(ctx, c.Property)
		if err != nil {
			return err
		}
		workspaces, err := findWorkspaces(ctx, store, c.Workspaces)
		if err != nil {
			return err
		}
		for _, p := range properties {
			if err := c.change(ctx, store, p, workspaces); err != nil {
				return err
			}
		}
		shares, err := store.PropertyShares(ctx)
		if err != nil {
			return err
		}
		return console.Many(c.Output, con.Stdout, console.Each(properties, func(p sqlstore.Property) shareRecord { return recordOfShares(p, shares) }))
	})
}

func (c *propertyShare) change(ctx context.Context, store *sqlstore.Store, p sqlstore.Property, workspaces []sqlstore.Workspace) error {
	if !c.Off {
		return share(ctx, store, p, workspaces)
	}
	for _, workspace := range workspaces {
		if err := store.UnshareProperty(ctx, p.ID, workspace.ID); err != nil {
			return err
		}
	}
	return nil
}

// findWorkspaces returns the workspaces that references name. Commands call it before they change anything.
func findWorkspaces(ctx context.Context, store *sqlstore.Store, references []string) ([]sqlstore.Workspace, error) {
	workspaces := make([]sqlstore.Workspace, len(references))
	for i, reference := range references {
		var err error
		if workspaces[i], err = store.Workspace(ctx, reference); err != nil {
			return nil, err
		}
	}
	return workspaces, nil
}

// share shares a property with workspaces, except for its own, whose members reach it already.
func share(ctx context.Context, store *sqlstore.Store, p sqlstore.Property, workspaces []sqlstore.Workspace) error {
	for _, workspace := range workspaces {
		if workspace.ID == p.WorkspaceID {
			continue
		}
		if err := store.ShareProperty(ctx, p.ID, workspace.ID); err != nil {
			return err
		}
	}
	return nil
}

func recordOfShares(p sqlstore.Property, shares []sqlstore.Share) shareRecord {
	r := shareRecord{ID: p.ID, GSCProperty: p.Site, Slug: p.Slug, SharedWith: []workspaceScope{}}
	for _, s := range shares {
		if s.PropertyID == p.ID {
			r.SharedWith = append(r.SharedWith, workspaceScope{s.Workspace.ID, s.Workspace.Name})
		}
	}
	return r
}

type propertyMove struct {
	verifyFlags
	console.Output
	Property   string `arg:"" help:"Id, Search Console property, slug or domain."`
	Connection string `arg:"" help:"Name, WORKSPACE/NAME or id."`
	Keep       bool   `help:"Share it with the workspace that it leaves."`
}

func (c *propertyMove) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(a admin.Admin) error {
		before, err := a.Store.Property(ctx, c.Property)
		if err != nil {
			return err
		}
		moved, err := a.MoveProperty(ctx, before.ID, c.Connection)
		if err != nil {
			return err
		}
		if c.Keep && moved.WorkspaceID != before.WorkspaceID {
			if err := a.Store.ShareProperty(ctx, moved.ID, before.WorkspaceID); err != nil {
				return err
			}
		}
		return console.One(c.Output, con.Stdout, recordOfProperty(moved))
	})
}
