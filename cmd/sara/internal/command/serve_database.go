package command

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/admin"
	"sara/cmd/sara/internal/backend"
	"sara/policy"
	"sara/policy/keyring"
	"sara/policy/redisconn"
)

// databaseRetry is how often a database is tried that did not answer at the start.
const databaseRetry = time.Second

// A servedDatabase is the database of a server, which may not answer yet.
type servedDatabase struct {
	store *sqlstore.Store
	await func(context.Context) // opens it once it answers; nil: it is open
}

// openDatabase opens the database, migrates it and checks what is stored. With Redis, which may have a snapshot to start from, a
// PostgreSQL that does not answer is opened later: the process waits for it instead of an orchestrator that restarts the process.
// Without Redis that is an error, because what was counted today is in the database too.
func (c *serveCommand) openDatabase(ctx context.Context, plans policy.Plans, log *slog.Logger) (d servedDatabase, err error) {
	notices := backend.Notices{
		Created: func(path string) {
			log.WarnContext(ctx, "created a new, empty database: if there is another one, name it with SARA_DATABASE_URL", slog.String("file", path))
		},
		Waits: func(atMost time.Duration) {
			log.WarnContext(ctx, "another process is migrating the database: waiting for it", slog.Duration("at_most", atMost))
		},
	}
	d.store, err = backend.ServeDatabase(ctx, c.Store, notices)
	if err == nil {
		return d, checkStored(ctx, d.store, plans, log)
	}
	if !errors.As(err, new(*backend.UnavailableError)) || c.DatabaseURL.File != "" {
		return d, err
	}
	if !c.RedisURL.IsSet() {
		log.WarnContext(ctx, "cannot start without the database: without SARA_REDIS_URL, there is no snapshot from other replicas")
		return d, err
	}
	log.WarnContext(ctx, "starting without the database", slog.Any("error", err))
	d.store, err = backend.OpenDatabaseLater(c.Store, notices)
	d.await = func(ctx context.Context) { c.awaitDatabase(ctx, d.store, plans, log) }
	return d, err
}

// awaitDatabase migrates the database as soon as it answers, before which the store refuses every use, and checks what is stored. An
// error that waiting does not fix, such as a newer schema, keeps the server unready, and /readyz and the log show it.
func (c *serveCommand) awaitDatabase(ctx context.Context, store *sqlstore.Store, plans policy.Plans, log *slog.Logger) {
	tick := time.NewTicker(databaseRetry)
	defer tick.Stop()
	refused := ""
	for {
		_, err := backend.Migrate(ctx, c.Store, store)
		if err == nil {
			break
		}
		if !errors.As(err, new(*backend.UnavailableError)) && err.Error() != refused {
			refused = err.Error()
			log.ErrorContext(ctx, "the database cannot be used", slog.Any("error", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	log.WarnContext(ctx, "the database answers for the first time since the start")
	if err := checkStored(ctx, store, plans, log); err != nil {
		log.ErrorContext(ctx, "the database does not match the settings", slog.Any("error", err))
	}
}

// openSnapshots returns the snapshots of a PostgreSQL in Redis, nil without either: a file is not away.
func (c *serveCommand) openSnapshots(client redisconn.Client, keys *keyring.Keyring, now func() time.Time, log *slog.Logger,
	registry prometheus.Registerer) (*policy.Snapshots, error) {
	if client == nil || c.DatabaseURL.File != "" {
		return nil, nil
	}
	return policy.NewSnapshots(policy.SnapshotConfig{Client: client, Keyring: keys, Now: now, Log: log, Registry: registry})
}

// checkStored checks the stored credentials and plans against the settings.
func checkStored(ctx context.Context, store *sqlstore.Store, plans policy.Plans, log *slog.Logger) error {
	if err := checkCredentials(ctx, store, log); err != nil {
		return err
	}
	return warnOfPlans(ctx, store, plans, log)
}

// checkCredentials returns an error if no secret key opens any stored credentials: they are the wrong keys. If they open
// some, the other connections are logged, and their properties are answered from stored data.
func checkCredentials(ctx context.Context, store *sqlstore.Store, log *slog.Logger) error {
	sealing, err := backend.CheckSealing(ctx, store)
	if err != nil {
		return err
	}
	for _, err := range backend.SealingErrors(sealing) {
		log.WarnContext(ctx, "a connection cannot be used", slog.Any("error", err))
	}
	if note := backend.PreviousKeysNote(sealing); note != "" {
		log.InfoContext(ctx, note)
	}
	return nil
}

// warnOfPlans logs accounts whose plan is not in the plan table: they have no access.
func warnOfPlans(ctx context.Context, store *sqlstore.Store, plans policy.Plans, log *slog.Logger) error {
	accounts, err := store.Accounts(ctx)
	for _, a := range accounts {
		if planErr := admin.CheckPlan(plans, a.Plan); planErr != nil {
			log.WarnContext(ctx, "an account has no access: set another plan with sara account plan, or add its plan to SARA_PLANS_FILE",
				slog.String("account", a.Name), slog.Any("error", planErr))
		}
	}
	return err
}
