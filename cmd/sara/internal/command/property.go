package command

import (
	"context"
	"slices"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/admin"
	"sara/cmd/sara/internal/console"
)

type propertyCommands struct {
	Add     propertyAdd     `cmd:"" help:"Add a property to a connection." example:"sara property add google sc-domain:example.com --slug shop"`
	Import  propertyImport  `cmd:"" help:"Add every property that a connection reaches and does not have yet." example:"sara property import google --match 'client1-*' --share Client1"`
	List    propertyList    `cmd:"" help:"List the properties of all workspaces, including archived ones." example:"sara property list --workspace Main --unhealthy"`
	Archive propertyArchive `cmd:"" help:"Archive a property: it serves only stored history, and lists omit it." example:"sara property archive shop"`
	Restore propertyRestore `cmd:"" help:"Unarchive a property." example:"sara property restore shop"`
	Star    propertyStar    `cmd:"" help:"Star a property, or remove the star with --off." example:"sara property star shop"`
	Share   propertyShare   `cmd:"" help:"Let the members of further workspaces reach a property, which stays connected and collected once." example:"sara property share 'client1-*' Client1"`
	Move    propertyMove    `cmd:"" help:"Move a property to another connection, and so to its workspace, with its history and settings." example:"sara property move shop google-2"`
	Remove  propertyRemove  `cmd:"" help:"Remove a property with its settings, its inspected URLs and its archived history." example:"sara property remove shop"`
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

// Optional lists what a narrow terminal does not show: a slug names a property as well as an id.
func (propertyRecord) Optional() []string {
	return []string{"NAME", "PERMISSION", "STARRED", "ARCHIVED", "ID"}
}

func (p propertyRecord) Columns() []console.Column {
	return []console.Column{{"NAME", p.DisplayName}, {"GSC PROPERTY", p.GSCProperty}, {"SLUG", p.Slug}, {"PERMISSION", p.PermissionLevel},
		{"STARRED", console.YesNo(p.Starred)}, {"ARCHIVED", console.YesNo(p.Archived)}, {"HEALTHY", console.YesNo(p.Healthy)}, {"ID", p.ID},
		{"NOTE", p.Note}}
}

func recordOfProperty(p sqlstore.Property) propertyRecord {
	return propertyRecord{ID: p.ID, GSCProperty: p.Site, Domain: p.Host, Slug: p.Slug, DisplayName: p.DisplayName, Type: p.Type,
		PermissionLevel: p.PermissionLevel, Starred: p.Starred, Archived: p.Archived,
		Healthy: p.Connection.Healthy && p.AccessNote == "", Note: p.AccessProblem(),
		WorkspaceID: p.WorkspaceID, ConnectionID: p.Connection.ID, CreatedAt: console.Timestamp(p.CreatedAt)}
}

type propertyAdd struct {
	verifyFlags
	console.Output
	Connection  string `arg:"" help:"Name, WORKSPACE/NAME or id."`
	GSCProperty string `arg:"" name:"gsc_property" help:"As Search Console writes it: sc-domain:example.com or https://www.example.com/."`
	Name        string `help:"Name of the property; default: its domain or its URL."`
	Slug        string `help:"Short name for paths: lower-case letters, digits and dashes; default: from the property."`
}

func (c *propertyAdd) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(a admin.Admin) error {
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
		con.Next(c.Output, "create a key for a reader, and serve. The server archives history and inspects URLs once a day; to do it now, "+
			"run collect and inspect.", console.CommandLine("key", "create", "EMAIL", "--name", "NAME"), console.CommandLine("serve"),
			console.CommandLine("collect", "--property", reference), console.CommandLine("inspect", "--property", reference))
		return nil
	})
}

type propertyImport struct {
	upstreamFlags
	console.Output
	Connection string   `arg:"" help:"Name, WORKSPACE/NAME or id."`
	Match      []string `sep:"none" placeholder:"PATTERN" help:"Only properties that match, by domain or as Search Console writes them, such as 'client1-*'; may be repeated; default: all."`
	Share      []string `sep:"none" placeholder:"WORKSPACE" help:"Share them with this workspace: name, ACCOUNT/NAME or id; may be repeated."`
}

type importRecord struct {
	propertyRecord
	Result string `json:"result"` // added, or kept if the connection had it already
}

func (i importRecord) Columns() []console.Column {
	return append([]console.Column{{"RESULT", i.Result}}, i.propertyRecord.Columns()...)
}

func (c *propertyImport) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(a admin.Admin) error {
		workspaces, err := findWorkspaces(ctx, a.Store, c.Share)
		if err != nil {
			return err
		}
		results, err := a.ImportProperties(ctx, c.Connection, c.Match...)
		if err != nil {
			return err
		}
		records := importRecords(con, results)
		for _, result := range results {
			if result.Property == nil {
				continue
			}
			if err := share(ctx, a.Store, *result.Property, workspaces); err != nil {
				return err
			}
		}
		if err := noteTwins(ctx, con, a.Store, results); err != nil {
			return err
		}
		if err := console.List(con, c.Output, records, "no property was found: the account reaches none, or --match excludes all. "+
			"To import all that it reaches:", console.CommandLine("property", "import", c.Connection)); err != nil || len(records) == 0 {
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
			con.Note("skipped %s: %s", result.Site.URL, result.Skipped)
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
		console.CommandLine("key", "create", "EMAIL", "--name", "NAME"), console.CommandLine("serve"), console.CommandLine("collect"),
		console.CommandLine("inspect"))
}

// noteTwins says which of the added properties are connected through another connection too: they are collected twice, and a name that
// both have is ambiguous.
func noteTwins(ctx context.Context, con *console.Console, store *sqlstore.Store, results []admin.Imported) error {
	properties, err := store.Properties(ctx)
	if err != nil {
		return err
	}
	connected := make(map[string]int)
	for _, p := range properties {
		connected[p.Site]++
	}
	var twins []string
	for _, result := range results {
		if result.Added && connected[result.Property.Site] > 1 {
			twins = append(twins, result.Property.Site)
		}
	}
	if len(twins) > 0 {
		con.Note("%d of these, such as %s, are connected twice now, and so collected twice; "+
			"one connection can serve several workspaces: sara property share", len(twins), twins[0])
	}
	return nil
}

type propertyList struct {
	recordFlags
	Workspace  string `placeholder:"WORKSPACE" help:"Only properties that the members of this workspace reach: name, ACCOUNT/NAME or id."`
	Connection string `placeholder:"CONNECTION" help:"Only properties of this connection: name, WORKSPACE/NAME or id."`
	Unhealthy  bool   `help:"Only properties that cannot be read now."`
}

func (c *propertyList) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		properties, err := c.chosen(ctx, store)
		if err != nil {
			return err
		}
		records := console.Each(properties, recordOfProperty)
		if c.Unhealthy {
			records = slices.DeleteFunc(records, func(r propertyRecord) bool { return r.Healthy })
		}
		if c.Workspace != "" || c.Connection != "" || c.Unhealthy {
			return console.List(con, c.Output, records, "no property matches; list all.", console.CommandLine("property", "list"))
		}
		return console.List(con, c.Output, records, "there is no property yet: import all that a connection reaches.",
			console.CommandLine("property", "import", "CONNECTION"))
	})
}

// chosen returns the properties of the workspace and the connection that are named.
func (c *propertyList) chosen(ctx context.Context, store *sqlstore.Store) ([]sqlstore.Property, error) {
	properties, err := store.Properties(ctx)
	if err == nil && c.Connection != "" {
		var connection sqlstore.Connection
		connection, err = store.Connection(ctx, c.Connection)
		properties = slices.DeleteFunc(properties, func(p sqlstore.Property) bool { return p.Connection.ID != connection.ID })
	}
	if err != nil || c.Workspace == "" {
		return properties, err
	}
	workspace, err := store.Workspace(ctx, c.Workspace)
	if err != nil {
		return nil, err
	}
	shares, err := store.PropertyShares(ctx)
	return slices.DeleteFunc(properties, func(p sqlstore.Property) bool {
		return p.WorkspaceID != workspace.ID && !slices.ContainsFunc(shares,
			func(s sqlstore.Share) bool { return s.PropertyID == p.ID && s.Workspace.ID == workspace.ID })
	}), err
}

// propertyFlags are the flags of commands on one property.
type propertyFlags struct {
	recordFlags
	Property string `arg:"" help:"Id, Search Console property, slug or domain."`
}

// change runs a change and prints the changed property.
func (f propertyFlags) change(ctx context.Context, con *console.Console, change func(*sqlstore.Store) (sqlstore.Property, error)) error {
	return f.show(ctx, con, func(store *sqlstore.Store) (console.Record, error) {
		p, err := change(store)
		return recordOfProperty(p), err
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
