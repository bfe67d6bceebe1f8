package main

import (
	"context"
	"fmt"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/admin"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
)

type propertyCommands struct {
	Add     propertyAdd     `cmd:"" help:"Add a property to a connection."`
	Import  propertyImport  `cmd:"" help:"Add every property that a connection reaches and does not have yet."`
	List    propertyList    `cmd:"" help:"List the properties of all workspaces, including archived ones."`
	Archive propertyArchive `cmd:"" help:"Archive a property: it serves only stored history, and lists omit it."`
	Restore propertyRestore `cmd:"" help:"Unarchive a property."`
	Star    propertyStar    `cmd:"" help:"Star a property, or remove the star with --off."`
	Remove  propertyRemove  `cmd:"" help:"Remove a property with its settings, its inspected URLs and its archived history."`
}

type propertyRecord struct {
	ID              string `json:"id"`
	GSCProperty     string `json:"gsc_property"`
	Domain          string `json:"domain"`
	Slug            string `json:"slug"`
	DisplayName     string `json:"display_name"`
	Type            string `json:"type"`
	PermissionLevel string `json:"permission_level"` // empty if it was not verified
	Starred         bool   `json:"starred"`
	Archived        bool   `json:"archived"`
	Healthy         bool   `json:"healthy"`
	Note            string `json:"note"` // why it is not healthy; otherwise empty
	WorkspaceID     string `json:"workspace_id"`
	ConnectionID    string `json:"connection_id"`
	CreatedAt       string `json:"created_at"`
}

func (propertyRecord) Header() []string {
	return []string{"NAME", "GSC PROPERTY", "SLUG", "PERMISSION", "STARRED", "ARCHIVED", "HEALTHY", "ID", "NOTE"}
}

func (p propertyRecord) Cells() []string {
	return []string{p.DisplayName, p.GSCProperty, p.Slug, p.PermissionLevel, console.YesNo(p.Starred), console.YesNo(p.Archived), console.YesNo(p.Healthy),
		p.ID, p.Note}
}

func recordOfProperty(p sqlstore.Property) propertyRecord {
	record := propertyRecord{ID: p.ID, GSCProperty: p.Site, Domain: p.Host, Slug: p.Slug, DisplayName: p.DisplayName, Type: p.Type,
		PermissionLevel: p.PermissionLevel, Starred: p.Starred, Archived: p.Archived, Note: p.AccessNote,
		WorkspaceID: p.WorkspaceID, ConnectionID: p.Connection.ID, CreatedAt: console.Timestamp(p.CreatedAt)}
	if !p.Connection.Healthy {
		record.Note = p.Connection.Note
	}
	record.Healthy = p.Connection.Healthy && p.AccessNote == ""
	return record
}

type propertyAdd struct {
	verifyFlags
	console.Output
	Connection  string `arg:"" help:"Name, WORKSPACE/NAME or id."`
	GSCProperty string `arg:"" name:"gsc_property" help:"As Search Console writes it: sc-domain:example.com or https://www.example.com/."`
	Name        string `help:"Its name; default: its domain or its URL."`
	Slug        string `help:"Short name for paths: lower-case letters, digits and dashes; default: from the property."`
}

func (c *propertyAdd) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, func(a admin.Admin) error {
		p, err := a.AddProperty(ctx, sqlstore.PropertySpec{
			Connection: c.Connection, Site: c.GSCProperty, DisplayName: c.Name, Slug: c.Slug,
		})
		if err != nil {
			return err
		}
		if err := console.One(c.Output, con.Stdout, recordOfProperty(p)); err != nil {
			return err
		}
		reference := propertyReference(ctx, a.Store, p)
		con.Next(c.Output, "create a key for a reader, and serve. The server archives history and inspects URLs once a day; to do it now, run collect and inspect.",
			console.CommandLine("key", "create", "EMAIL", "--name", "NAME"), console.CommandLine("serve"),
			console.CommandLine("collect", "--property", reference), console.CommandLine("inspect", "--property", reference))
		return nil
	})
}

type propertyImport struct {
	storeFlags
	settings.Upstream
	console.Output
	Connection string `arg:"" help:"Name, WORKSPACE/NAME or id."`
}

type importRecord struct {
	propertyRecord
	Result string `json:"result"` // added, or kept if the connection had it already
}

func (importRecord) Header() []string {
	return append([]string{"RESULT"}, propertyRecord{}.Header()...)
}

func (i importRecord) Cells() []string {
	return append([]string{i.Result}, i.propertyRecord.Cells()...)
}

func (c *propertyImport) Run(ctx context.Context, con *console.Console) error {
	verify := verifyFlags{storeFlags: c.storeFlags, Upstream: c.Upstream}
	return verify.use(ctx, func(a admin.Admin) error {
		results, err := a.ImportProperties(ctx, c.Connection)
		if err != nil {
			return err
		}
		records := importRecords(con, results)
		if err := console.Many(c.Output, con.Stdout, records); err != nil || len(records) == 0 {
			return err
		}
		nextAfterImport(con, c.Output)
		return nil
	})
}

// importRecords returns the records of imported sites, and reports those that were skipped.
func importRecords(con *console.Console, results []admin.Imported) []importRecord {
	records := make([]importRecord, 0, len(results))
	for _, result := range results {
		if result.Property == nil {
			_, _ = fmt.Fprintf(con.Stderr, "sara: skipped %s: %s\n", result.Site.URL, result.Skipped)
			continue
		}
		record := importRecord{propertyRecord: recordOfProperty(*result.Property), Result: "kept"}
		if result.Added {
			record.Result = "added"
		}
		records = append(records, record)
	}
	return records
}

// nextAfterImport prints what to do once there are properties.
func nextAfterImport(con *console.Console, o console.Output) {
	con.Next(o, "create a key for a reader, and serve. The server archives history and inspects URLs once a day; to do it now, run collect and inspect.",
		console.CommandLine("key", "create", "EMAIL", "--name", "NAME"), console.CommandLine("serve"), console.CommandLine("collect"), console.CommandLine("inspect"))
}

type propertyList struct {
	storeFlags
	console.Output
}

func (c *propertyList) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, func(store *sqlstore.Store) error {
		properties, err := store.Properties(ctx)
		if err != nil {
			return err
		}
		return console.Many(c.Output, con.Stdout, console.Each(properties, recordOfProperty))
	})
}

// propertyFlags are the flags of commands that change one property.
type propertyFlags struct {
	storeFlags
	console.Output
	Property string `arg:"" help:"Id, Search Console property, slug or domain."`
}

// change runs a change and prints the changed property.
func (f propertyFlags) change(ctx context.Context, con *console.Console, change func(*sqlstore.Store) (sqlstore.Property, error)) error {
	return f.use(ctx, func(store *sqlstore.Store) error {
		p, err := change(store)
		if err != nil {
			return err
		}
		return console.One(f.Output, con.Stdout, recordOfProperty(p))
	})
}

type propertyArchive struct{ propertyFlags }

func (c *propertyArchive) Run(ctx context.Context, con *console.Console) error {
	return c.change(ctx, con, func(s *sqlstore.Store) (sqlstore.Property, error) { return s.SetArchived(ctx, c.Property, true) })
}

type propertyRestore struct{ propertyFlags }

func (c *propertyRestore) Run(ctx context.Context, con *console.Console) error {
	return c.change(ctx, con, func(s *sqlstore.Store) (sqlstore.Property, error) { return s.SetArchived(ctx, c.Property, false) })
}

type propertyStar struct {
	propertyFlags
	Off bool `help:"Remove the star."`
}

func (c *propertyStar) Run(ctx context.Context, con *console.Console) error {
	return c.change(ctx, con, func(s *sqlstore.Store) (sqlstore.Property, error) { return s.SetStarred(ctx, c.Property, !c.Off) })
}
