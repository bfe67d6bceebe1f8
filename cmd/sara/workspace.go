package main

import (
	"context"

	"sara/archive/sqlstore"
)

type workspaceCommands struct {
	Add  workspaceAdd  `cmd:"" help:"Add a workspace to an account."`
	List workspaceList `cmd:"" help:"List the workspaces of all accounts."`
}

type workspaceRecord struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	AccountID string `json:"account_id"`
	Account   string `json:"account"`
	CreatedAt string `json:"created_at"`
}

func (workspaceRecord) header() []string { return []string{"NAME", "ACCOUNT", "CREATED", "ID"} }

func (w workspaceRecord) cells() []string { return []string{w.Name, w.Account, w.CreatedAt, w.ID} }

func recordOfWorkspace(w sqlstore.Workspace) workspaceRecord {
	return workspaceRecord{ID: w.ID, Name: w.Name, AccountID: w.AccountID, Account: w.AccountName, CreatedAt: timestamp(w.CreatedAt)}
}

type workspaceAdd struct {
	storeFlags
	output
	Account string `arg:"" help:"Name or id."`
	Name    string `arg:"" help:"How to call it."`
}

func (c *workspaceAdd) Run(ctx context.Context, con *console) error {
	return c.use(ctx, func(store *sqlstore.Store) error {
		workspace, err := store.AddWorkspace(ctx, c.Account, c.Name)
		if err != nil {
			return err
		}
		if err := one(c.output, con.stdout, recordOfWorkspace(workspace)); err != nil {
			return err
		}
		reference := workspaceReference(ctx, store, workspace.Name, workspace.ID)
		con.next(c.output, "connect it to Search Console, and add who may read it.",
			commandLine("connection", "add", reference, "--credentials", "FILE"),
			commandLine("person", "add", workspace.AccountName, "EMAIL", "--workspace", reference))
		return nil
	})
}

type workspaceList struct {
	storeFlags
	output
}

func (c *workspaceList) Run(ctx context.Context, con *console) error {
	return c.use(ctx, func(store *sqlstore.Store) error {
		workspaces, err := store.Workspaces(ctx)
		if err != nil {
			return err
		}
		return many(c.output, con.stdout, each(workspaces, recordOfWorkspace))
	})
}
