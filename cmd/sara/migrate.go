package main

import (
	"context"
	"errors"
	"strconv"

	"sara/cmd/sara/internal/backend"
)

type migrateCommand struct {
	storeFlags
	output
}

type migrationRecord struct {
	Applied int `json:"applied"` // steps; 0: the schema was up to date
}

func (migrationRecord) header() []string  { return []string{"APPLIED STEPS"} }
func (m migrationRecord) cells() []string { return []string{strconv.Itoa(m.Applied)} }

func (c *migrateCommand) Run(ctx context.Context, con *console) error {
	store, err := backend.ConnectDatabase(ctx, c.Store)
	if err != nil {
		return err
	}
	applied, err := backend.Migrate(ctx, c.Store, store)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	accounts, err := store.Accounts(ctx)
	if err := errors.Join(err, store.Close()); err != nil {
		return err
	}
	if err := one(c.output, con.stdout, migrationRecord{applied}); err != nil {
		return err
	}
	if len(accounts) == 0 {
		con.next(c.output, "add an account, which has a plan.", commandLine("account", "add", "NAME", "--plan", "pro"))
	} else {
		con.next(c.output, "serve the API.", commandLine("serve"))
	}
	return nil
}
