package command

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/admin"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
	"sara/proxy/upstream"
)

type connectionCommands struct {
	Connect connectionConnect `cmd:"" help:"Connect a Google account: ask for its consent in a browser, and add the sites that it reads." example:"sara connection connect Main --client client.json"`
	Add     connectionAdd     `cmd:"" help:"Store Search Console credentials under a workspace, encrypted." example:"sara connection add Main --credentials service-account.json --name google"`
	Update  connectionUpdate  `cmd:"" help:"Replace the credentials of a connection, for example after they were revoked." example:"sara connection update google --credentials service-account.json"`
	List    connectionList    `cmd:"" help:"List the connections of all workspaces." example:"sara connection list"`
	Reseal  connectionReseal  `cmd:"" help:"Encrypt all stored credentials with the current secret key, while servers serve." example:"sara connection reseal"`
	Remove  connectionRemove  `cmd:"" help:"Remove a connection with its credentials and its properties, and their archived history." example:"sara connection remove google"`
}

type connectionRecord struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	Identity    string `json:"identity"`
	WorkspaceID string `json:"workspace_id"`
	Workspace   string `json:"workspace"`
	AccountID   string `json:"account_id"`
	Account     string `json:"account"`
	Revision    int    `json:"revision"`
	Healthy     bool   `json:"healthy"`
	Note        string `json:"note"` // why it is not healthy; otherwise empty
	CreatedAt   string `json:"created_at"`
}

func (c connectionRecord) Columns() []console.Column {
	return []console.Column{{"NAME", c.Name}, {"WORKSPACE", c.Workspace}, {"ACCOUNT", c.Account}, {"KIND", c.Kind},
		{"REVISION", strconv.Itoa(c.Revision)}, {"HEALTHY", console.YesNo(c.Healthy)}, {"ID", c.ID}, {"NOTE", c.Note}}
}

func recordOfConnection(c sqlstore.Connection) connectionRecord {
	return connectionRecord{ID: c.ID, Name: c.Name, Kind: c.Kind, Identity: c.Identity, WorkspaceID: c.WorkspaceID,
		Workspace: c.WorkspaceName, AccountID: c.AccountID, Account: c.AccountName, Revision: c.Revision,
		Healthy: c.Healthy, Note: c.Note, CreatedAt: console.Timestamp(c.CreatedAt)}
}

// credentialFlags are the flags of commands that store a file of credentials.
type credentialFlags struct {
	verifyFlags
	console.Output
	Credentials string `required:"" placeholder:"FILE" help:"JSON of a service_account or an authorized_user, as Google issues it; - reads standard input."`
}

type connectionAdd struct {
	credentialFlags
	Workspace string `arg:"" help:"Name, ACCOUNT/NAME or id."`
	Name      string `help:"Name of the connection; default: the identity in the credentials."`
}

func (c *connectionAdd) Run(ctx context.Context, con *console.Console) error {
	return c.change(ctx, con, func(a admin.Admin, credentials []byte) (sqlstore.Connection, []upstream.Site, error) {
		return a.AddConnection(ctx, c.Workspace, c.Name, credentials)
	})
}

type connectionUpdate struct {
	credentialFlags
	Connection string `arg:"" help:"Name, WORKSPACE/NAME or id."`
	Force      bool   `help:"Replace them even if properties of the connection cannot be read with the new ones."`
}

func (c *connectionUpdate) Run(ctx context.Context, con *console.Console) error {
	return c.change(ctx, con, func(a admin.Admin, credentials []byte) (sqlstore.Connection, []upstream.Site, error) {
		return a.UpdateConnection(ctx, c.Connection, credentials, c.Force)
	})
}

// change runs a change with the credentials, and prints the connection and the next step.
func (f credentialFlags) change(ctx context.Context, con *console.Console,
	change func(admin.Admin, []byte) (sqlstore.Connection, []upstream.Site, error)) error {
	credentials, err := con.ReadFile(ctx, f.Credentials)
	if err != nil {
		return fmt.Errorf("read the credentials: %w", err)
	}
	return f.use(ctx, con, func(a admin.Admin) error {
		if f.SecretKey.Key == nil { // before the calls to Search Console
			return noSecretKey(ctx, a.Store)
		}
		connection, sites, err := change(a, credentials)
		if err != nil {
			return err
		}
		if a.Upstream != nil && len(sites) == 0 {
			con.Note("%s reaches no site yet; to fix that, %s", connection.Identity, admin.GrantAccess(connection))
		}
		if err := console.One(f.Output, con.Stdout, recordOfConnection(connection)); err != nil {
			return err
		}
		con.Next(f.Output, "import all properties that it reaches, or add one.",
			console.CommandLine("property", "import", connectionReference(ctx, a.Store, connection)),
			console.CommandLine("property", "add", connectionReference(ctx, a.Store, connection), cmp.Or(anySite(sites), "sc-domain:example.com")))
		return nil
	})
}

// noSecretKey returns an error that explains which secret key to set: a new one would not decrypt the stored credentials.
func noSecretKey(ctx context.Context, store *sqlstore.Store) error {
	connections, err := store.Connections(ctx)
	switch {
	case err != nil:
		return err
	case len(connections) > 0:
		return settings.Errorf("SARA_SECRET_KEY", "it is not set: set it to the key that encrypted the stored connections (%d); "+
			"a new one cannot open them", len(connections))
	}
	return fmt.Errorf("%w: set SARA_SECRET_KEY to 32 random bytes in base64, for example the output of `openssl rand -base64 32`; "+
		"keep it: serving needs the same key", sqlstore.ErrNoSecretKey)
}

// anySite returns a site whose data can be read, empty if there is none.
func anySite(sites []upstream.Site) string {
	for _, s := range sites {
		if s.Permission != admin.Unverified {
			return s.URL
		}
	}
	return ""
}

type connectionList struct{ recordFlags }

func (c *connectionList) Run(ctx context.Context, con *console.Console) error {
	return list(ctx, con, c.recordFlags, func(store *sqlstore.Store) ([]connectionRecord, error) {
		connections, err := store.Connections(ctx)
		return console.Each(connections, recordOfConnection), err
	}, "there is no connection yet: add one with the credentials of Search Console.",
		console.CommandLine("connection", "add", "WORKSPACE", "--credentials", "FILE"))
}
