package command

import (
	"context"
	"errors"
	"fmt"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/status"
)

type connectionReseal struct{ recordFlags }

// Help is the longer help of the command.
func (connectionReseal) Help() string {
	return `To change the secret key without an interruption:

1. Restart all servers with the new key as SARA_SECRET_KEY and the old one as SARA_SECRET_KEY_PREVIOUS.

2. Run this command with the same settings. It may be interrupted, and run again.

3. When it says that the previous key can go, restart all servers without SARA_SECRET_KEY_PREVIOUS.

Keep the old key for as long as you keep backups of the database from before step 2.`
}

// resealRecord is the result of a run.
type resealRecord struct {
	Resealed int                `json:"resealed"`
	Keys     []status.SecretKey `json:"keys"`
}

func (c *connectionReseal) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		if c.SecretKey.Key == nil {
			return noSecretKey(ctx, store)
		}
		record := resealRecord{}
		err := store.Reseal(ctx, func(resealed int) {
			record.Resealed = resealed
			_, _ = fmt.Fprintf(con.Stderr, "resealed so far: %d\n", resealed)
		})
		if err != nil {
			return err
		}
		sealing, err := store.Sealing(ctx, backend.NamedConnections)
		if err != nil {
			return err
		}
		record.Keys = console.Each(sealing.Keys, status.SecretKeyOf)
		return errors.Join(append(backend.SealingErrors(sealing), record.print(c.Output, con, sealing))...)
	})
}

func (r resealRecord) print(o console.Output, con *console.Console, sealing sqlstore.Sealing) error {
	if o.JSON {
		return console.PrintJSON(con.Stdout, r)
	}
	err := console.PrintTable(con.Stdout, []string{"KEY", "ROLE", "CONNECTIONS"}, console.Each(r.Keys, status.SecretKey.Cells))
	if note := backend.PreviousKeysNote(sealing); err == nil && note != "" {
		_, err = fmt.Fprintln(con.Stdout, "\n"+note)
	}
	return err
}
