package main

import (
	"context"
	"errors"
	"strconv"

	"sara/archive/sqlstore"
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
	if err := c.check(); err != nil {
		return err
	}
	store, err := sqlstore.Open(ctx, sqlstore.Config{URL: c.DatabaseURL})
	if err != nil {
		return wrongSetting("SARA_DATABASE_URL", "%s: %v", maskURL(c.DatabaseURL), err)
	}
	applied, err := store.Migrate(ctx)
	if err := errors.Join(err, store.Close()); err != nil {
		return err
	}
	return one(c.output, con.stdout, migrationRecord{applied})
}
