package command

import (
	"context"
	"slices"
	"strings"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
)

type personCommands struct {
	Add    personAdd    `cmd:"" help:"Add a person to an account and to workspaces." example:"sara person add Acme ann@acme.example --workspace Main"`
	Join   personJoin   `cmd:"" help:"Give a person access to the properties of a workspace." example:"sara person join ann@acme.example Main"`
	Leave  personLeave  `cmd:"" help:"Remove a person, and the person's keys, from a workspace." example:"sara person leave ann@acme.example Main"`
	List   personList   `cmd:"" help:"List all people." example:"sara person list"`
	Remove personRemove `cmd:"" help:"Remove a person and the person's keys." example:"sara person remove ann@acme.example"`
	Keys   personKeys   `cmd:"" help:"All keys of a person."`
}

type personRecord struct {
	ID         string           `json:"id"`
	Email      string           `json:"email"`
	AccountID  string           `json:"account_id"`
	Account    string           `json:"account"`
	Workspaces []workspaceScope `json:"workspaces"`
	CreatedAt  string           `json:"created_at"`
}

// workspaceScope is a workspace that a person or a key is restricted to.
type workspaceScope struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (p personRecord) Columns() []console.Column {
	names := console.Each(p.Workspaces, func(w workspaceScope) string { return w.Name })
	return []console.Column{{"EMAIL", p.Email}, {"ACCOUNT", p.Account}, {"WORKSPACES", strings.Join(names, ", ")}, {"CREATED", p.CreatedAt},
		{"ID", p.ID}}
}

// readPerson returns the stored record of a person.
func readPerson(ctx context.Context, store *sqlstore.Store, reference string) (personRecord, error) {
	p, err := store.Person(ctx, reference)
	if err != nil {
		return personRecord{}, err
	}
	account, err := store.Account(ctx, p.AccountID)
	if err != nil {
		return personRecord{}, err
	}
	workspaces, err := store.PersonWorkspaces(ctx, p.ID)
	if err != nil {
		return personRecord{}, err
	}
	return personRecord{ID: p.ID, Email: p.Email, AccountID: p.AccountID, Account: account.Name, CreatedAt: console.Timestamp(p.CreatedAt),
		Workspaces: console.Each(workspaces, func(w sqlstore.Workspace) workspaceScope { return workspaceScope{w.ID, w.Name} })}, nil
}

type personAdd struct {
	recordFlags
	Account   string   `arg:"" help:"Name or id of the account that pays for the person's keys."`
	Email     string   `arg:"" help:"The person's email address."`
	Workspace []string `required:"" sep:"none" placeholder:"WORKSPACE" help:"Name, ACCOUNT/NAME or id; may be repeated."`
}

func (c *personAdd) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		person, err := store.AddPerson(ctx, c.Account, c.Email, c.Workspace)
		if err != nil {
			return err
		}
		record, err := readPerson(ctx, store, person.ID)
		if err != nil {
			return err
		}
		if err := console.One(c.Output, con.Stdout, record); err != nil {
			return err
		}
		bare, err := workspaceWithoutConnection(ctx, store, person.ID)
		if err != nil {
			return err
		}
		if bare != "" {
			con.Next(c.Output, "connect the workspace to Search Console, by a person's consent or with a key file, and create a key, "+
				"so that the person's programs can call the API.", console.CommandLine("connection", "connect", bare, "--client", "FILE"),
				console.CommandLine("connection", "add", bare, "--credentials", "FILE"),
				console.CommandLine("key", "create", person.Email, "--name", "first key"))
			return nil
		}
		con.Next(c.Output, "create a key, so that the person's programs can call the API.",
			console.CommandLine("key", "create", person.Email, "--name", "first key"))
		return nil
	})
}

// workspaceWithoutConnection returns the reference of a workspace of the person without a connection, empty if each has one.
func workspaceWithoutConnection(ctx context.Context, store *sqlstore.Store, person string) (string, error) {
	workspaces, err := store.PersonWorkspaces(ctx, person)
	if err != nil {
		return "", err
	}
	connections, err := store.Connections(ctx)
	if err != nil {
		return "", err
	}
	for _, w := range workspaces {
		if !slices.ContainsFunc(connections, func(c sqlstore.Connection) bool { return c.WorkspaceID == w.ID }) {
			return workspaceReference(ctx, store, w.Name, w.ID), nil
		}
	}
	return "", nil
}

// memberFlags are the flags of commands that change whether a person is a member of a workspace.
type memberFlags struct {
	recordFlags
	Email     string `arg:"" help:"Email address or id."`
	Workspace string `arg:"" help:"Name, ACCOUNT/NAME or id."`
}

// change runs a change and prints the changed person.
func (f memberFlags) change(ctx context.Context, con *console.Console,
	change func(store *sqlstore.Store, ctx context.Context, person, workspace string) error) error {
	return f.show(ctx, con, func(store *sqlstore.Store) (console.Record, error) {
		if err := change(store, ctx, f.Email, f.Workspace); err != nil {
			return nil, err
		}
		return readPerson(ctx, store, f.Email)
	})
}

type personJoin struct{ memberFlags }

func (c *personJoin) Run(ctx context.Context, con *console.Console) error {
	return c.change(ctx, con, (*sqlstore.Store).JoinWorkspace)
}

type personLeave struct{ memberFlags }

func (c *personLeave) Run(ctx context.Context, con *console.Console) error {
	return c.change(ctx, con, (*sqlstore.Store).LeaveWorkspace)
}

type personList struct{ recordFlags }

func (c *personList) Run(ctx context.Context, con *console.Console) error {
	return list(ctx, con, c.recordFlags, func(store *sqlstore.Store) ([]personRecord, error) {
		people, err := store.People(ctx)
		records := make([]personRecord, len(people))
		for i, p := range people {
			if records[i], err = readPerson(ctx, store, p.ID); err != nil {
				return nil, err
			}
		}
		return records, err
	}, "there is no person yet: add one to an account and a workspace.",
		console.CommandLine("person", "add", "ACCOUNT", "EMAIL", "--workspace", "WORKSPACE"))
}

type personKeys struct {
	Revoke personKeysRevoke `cmd:"" help:"Revoke all keys of a person, immediately and permanently." example:"sara person keys revoke ann@acme.example"`
}

type personKeysRevoke struct {
	recordFlags
	Email string `arg:"" help:"Email address or id."`
}

func (c *personKeysRevoke) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		keys, err := store.RevokeKeys(ctx, c.Email)
		if err != nil {
			return err
		}
		return console.Many(c.Output, con.Stdout, console.Each(keys, recordOfKey))
	})
}
