package command

import (
	"context"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
)

type workspaceCommands struct {
	Add    workspaceAdd    `cmd:"" help:"Add a workspace to an account." example:"sara workspace add Acme Main"`
	List   workspaceList   `cmd:"" help:"List the workspaces of all accounts." example:"sara workspace list"`
	Remove workspaceRemove `cmd:"" help:"Remove a workspace with its connections and properties, and their archived history." example:"sara workspace remove Acme/Main"`
}

type workspaceRecord struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	AccountID string `json:"account_id"`
	Account   string `json:"account"`
	CreatedAt string `json:"created_at"`
}

func (w workspaceRecord) Columns() []console.Column {
	return []console.Column{{"NAME", w.Name}, {"ACCOUNT", w.Account}, {"CREATED", w.CreatedAt}, {"ID", w.ID}}
}

func recordOfWorkspace(w sqlstore.Workspace) workspaceRecord {
	return workspaceRecord{ID: w.ID, Name: w.Name, AccountID: w.AccountID, Account: w.AccountName, CreatedAt: console.Timestamp(w.CreatedAt)}
}

type workspaceAdd struct {
	recordFlags
	Account string `arg:"" help:"Name or id."`
	Name    string `arg:"" help:"Its name."`
}

func (c *workspaceAdd) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		workspace, err := store.AddWorkspace(ctx, c.Account, c.Name)
		if err != nil {
			return err
		}
		if err := console.One(c.Output, con.Stdout, recordOfWorkspace(workspace)); err != nil {
			return err
		}
		reference := workspaceReference(ctx, store, workspace.Name, workspace.ID)
		con.Next(c.Output, "connect it to Search Console, by a person's consent or with a key file, and add the people who may read it.",
			console.CommandLine("connection", "connect", reference, "--client", "FILE"),
			console.CommandLine("connection", "add", reference, "--credentials", "FILE"),
			console.CommandLine("person", "add", accountReference(ctx, store, workspace.AccountName, workspace.AccountID), "EMAIL", "--workspace", reference))
		return nil
	})
}

type workspaceList struct{ recordFlags }

func (c *workspaceList) Run(ctx context.Context, con *console.Console) error {
	return list(ctx, con, c.recordFlags, func(store *sqlstore.Store) ([]workspaceRecord, error) {
		workspaces, err := store.Workspaces(ctx)
		return console.Each(workspaces, recordOfWorkspace), err
	}, "there is no workspace yet: add one to an account.", console.CommandLine("workspace", "add", "ACCOUNT", "Main"))
}
