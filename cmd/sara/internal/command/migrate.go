package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
)

type migrateCommand struct {
	recordFlags
	IfReachable bool `help:"Succeed without migrating if the database does not answer: serve migrates it before use."`
}

type migrationRecord struct {
	Applied int `json:"applied"` // steps; 0 if the schema was up to date
}

func (m migrationRecord) Columns() []console.Column {
	return []console.Column{{"APPLIED STEPS", strconv.Itoa(m.Applied)}}
}

func (c *migrateCommand) Run(ctx context.Context, con *console.Console) error {
	store, err := backend.ConnectDatabase(ctx, c.Store, notices(con))
	if c.IfReachable && errors.As(err, new(*backend.UnavailableError)) {
		_, err = fmt.Fprintf(con.Stderr, "Nothing was migrated: %v\n", err)
		return err
	}
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
	if err := console.One(c.Output, con.Stdout, migrationRecord{applied}); err != nil {
		return err
	}
	if len(accounts) == 0 {
		con.Next(c.Output, "add an account, which has a plan.", console.CommandLine("account", "add", "NAME", "--plan", "own"))
	} else {
		con.Next(c.Output, "serve the API.", console.CommandLine("serve"))
	}
	return nil
}
