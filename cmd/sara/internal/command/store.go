package command

import (
	"context"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/admin"
	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/jobs"
	"sara/cmd/sara/internal/settings"
	"sara/proxy/upstream"
	"sara/translate"
)

// storeFlags are the flags of every command that opens the database.
type storeFlags struct {
	settings.File
	settings.Store
}

// use runs do with the open database.
func (f storeFlags) use(ctx context.Context, con *console.Console, do func(*sqlstore.Store) error) error {
	return backend.WithDatabase(ctx, f.Store, notices(con), do)
}

// create is use for a command that a deployment begins with: it creates a database file that does not exist, and says so.
func (f storeFlags) create(ctx context.Context, con *console.Console, do func(*sqlstore.Store) error) error {
	return backend.WithNewDatabase(ctx, f.Store, notices(con), do)
}

// recordFlags are the flags of every command that opens the database and prints records.
type recordFlags struct {
	storeFlags
	console.Output
}

// show prints the record that do returns.
func (f recordFlags) show(ctx context.Context, con *console.Console, do func(*sqlstore.Store) (console.Record, error)) error {
	return f.use(ctx, con, func(store *sqlstore.Store) error {
		record, err := do(store)
		if err != nil {
			return err
		}
		return console.One(f.Output, con.Stdout, record)
	})
}

// list prints the records that find returns. If there is none, a hint says what to do next.
func list[R console.Record](ctx context.Context, con *console.Console, f recordFlags, find func(*sqlstore.Store) ([]R, error),
	what string, commands ...string) error {
	return f.use(ctx, con, func(store *sqlstore.Store) error {
		records, err := find(store)
		if err != nil {
			return err
		}
		return console.List(con, f.Output, records, what, commands...)
	})
}

// notices prints what the database does.
func notices(con *console.Console) backend.Notices {
	return backend.Notices{
		Created: func(path string) { con.Note("created a new, empty database: %s", path) },
		Waits: func(atMost time.Duration) {
			con.Note("another process is migrating the database: waiting for it, for up to %v", atMost)
		},
	}
}

// upstreamFlags are the flags of commands that store what Search Console has.
type upstreamFlags struct {
	storeFlags
	settings.Upstream
}

// use runs do with an Admin that verifies with Search Console.
func (f upstreamFlags) use(ctx context.Context, con *console.Console, do func(admin.Admin) error) error {
	return f.storeFlags.use(ctx, con, func(store *sqlstore.Store) error {
		gateway, err := backend.OpenGateway(f.Upstream, upstream.Config{Connections: store})
		if err != nil {
			return err
		}
		defer gateway.Close()
		return do(admin.Admin{Store: store, Upstream: gateway, TokenURL: f.OAuthTokenURL.String()})
	})
}

// verifyFlags are the flags of commands that verify with Search Console before they store something.
type verifyFlags struct {
	upstreamFlags
	NoVerify bool `help:"Do not verify with Search Console first."`
}

// use runs do with an Admin, which verifies with Search Console unless --no-verify is given.
func (f verifyFlags) use(ctx context.Context, con *console.Console, do func(admin.Admin) error) error {
	if !f.NoVerify {
		return f.upstreamFlags.use(ctx, con, do)
	}
	return f.storeFlags.use(ctx, con, func(store *sqlstore.Store) error {
		return do(admin.Admin{Store: store, TokenURL: f.OAuthTokenURL.String()})
	})
}

// sourceFlags are the flags of commands that run a job once, in the foreground.
type sourceFlags struct {
	storeFlags
	settings.Archive
	settings.Upstream
	settings.Plans
}

// use runs do with the source of the job's properties, once the stored credentials are known to open.
func (f sourceFlags) use(ctx context.Context, con *console.Console, do func(*jobs.Source) error) error {
	return f.storeFlags.use(ctx, con, func(store *sqlstore.Store) error {
		if _, err := backend.CheckSealing(ctx, store); err != nil {
			return err
		}
		gateway, err := backend.OpenGateway(f.Upstream, upstream.Config{Connections: store})
		if err != nil {
			return err
		}
		defer gateway.Close()
		return do(&jobs.Source{Gateway: gateway, Store: store, Plans: f.PlansFile.Table()})
	})
}

// date is a day on the command line, written YYYY-MM-DD.
type date struct{ translate.Date }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *date) UnmarshalText(text []byte) (err error) {
	d.Date, err = translate.ParseDate(string(text))
	return err
}

// day returns the day of an optional flag.
func (d *date) day() *translate.Date {
	if d == nil {
		return nil
	}
	return &d.Date
}
