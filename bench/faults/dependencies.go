package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"sara/proxy/upstream/gscsim"
)

func databaseFaults() []fault {
	pause := func(signal syscall.Signal) func(context.Context, *world) error {
		return func(_ context.Context, w *world) error { return w.Postgres.Signal(signal) }
	}
	statement := func(text string) func(context.Context, *world) error {
		return func(ctx context.Context, w *world) error {
			_, err := w.Postgres.Query(ctx, text)
			return err
		}
	}
	return []fault{
		{name: "PostgreSQL is away", hold: 30 * time.Second, begin: func(_ context.Context, w *world) error { return w.StopPostgres() },
			end: func(_ context.Context, w *world) error { return w.StartPostgres() }},
		{name: "PostgreSQL restarts", begin: func(_ context.Context, w *world) error { return w.RestartPostgres() }},
		{name: "PostgreSQL is paused", short: true, begin: pause(syscall.SIGSTOP), end: pause(syscall.SIGCONT)},
		{name: "PostgreSQL ends all connections", begin: statement("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")},
		{name: "a table is locked", hold: 20 * time.Second, begin: func(ctx context.Context, w *world) error {
			w.background(func() error {
				_, err := w.Postgres.Query(ctx, "BEGIN; LOCK TABLE properties IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(20); COMMIT")
				return err
			})
			return nil
		}},
		{name: "PostgreSQL is slow", begin: func(_ context.Context, w *world) error { w.throttlePostgres(); return nil },
			end: func(_ context.Context, w *world) error { return w.unthrottlePostgres() }},
		{name: "PostgreSQL refuses writes", begin: readOnly("on"), end: readOnly("off")},
		{name: "no key opens the credentials", cold: recentDays, begin: statement(spoilCredentials), end: statement(restoreCredentials)},
		{name: "PostgreSQL has no connection left", begin: func(_ context.Context, w *world) error { w.takeConnections(); return nil },
			end: func(_ context.Context, w *world) error { w.jobs.Wait(); return nil }},
	}
}

// These statements alter the sealed credentials of the property that is asked about, and restore them, as sara's commands do.
const (
	spoilCredentials = "CREATE TABLE whole AS SELECT id, credentials FROM connections WHERE id IN (SELECT connection_id FROM properties);" +
		" UPDATE connections SET revision = revision + 1, credentials = set_byte(credentials, length(credentials) - 1," +
		" 255 - get_byte(credentials, length(credentials) - 1)) WHERE id IN (SELECT id FROM whole);" + nextEdition
	restoreCredentials = "UPDATE connections c SET revision = revision + 1, credentials = whole.credentials FROM whole WHERE c.id = whole.id;" +
		" DROP TABLE whole;" + nextEdition
	nextEdition = " UPDATE edition SET changes = changes + 1"
)

// readOnly sets whether all transactions are read-only, as on a full disk or after a failover to a standby.
func readOnly(value string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		if _, err := w.Postgres.Query(ctx, "ALTER SYSTEM SET default_transaction_read_only = "+value); err != nil {
			return err
		}
		_, err := w.Postgres.Query(ctx, "SELECT pg_reload_conf()")
		return err
	}
}

func storeFaults() []fault {
	return []fault{
		{name: "the object store is away", cold: recentDays, begin: func(_ context.Context, w *world) error { return w.StopS3(w.S3) },
			end: func(_ context.Context, w *world) error { return w.StartS3(w.S3) }},
		{name: "the object store is paused", cold: recentDays, begin: func(_ context.Context, w *world) error { return syscall.Kill(w.S3.PID(), syscall.SIGSTOP) },
			end: func(_ context.Context, w *world) error { return syscall.Kill(w.S3.PID(), syscall.SIGCONT) }},
		{name: "an object is torn", short: true, cold: allArchived, note: "damaged in the archive", begin: tearObject,
			end: func(_ context.Context, w *world) error { return os.WriteFile(w.torn, w.whole, 0o600) }},
	}
}

// tearObject cuts the oldest object of the archive in half.
func tearObject(_ context.Context, w *world) (err error) {
	objects, err := filepath.Glob(filepath.Join(w.S3.Folder, "history/*/*/history.parquet"))
	if err != nil {
		return err
	}
	w.torn = objects[0]
	if w.whole, err = os.ReadFile(w.torn); err != nil {
		return err
	}
	return os.Truncate(w.torn, int64(len(w.whole)/2))
}

func upstreamFaults() []fault {
	list := []fault{}
	add := func(name string, short bool, begin func(*world) error) {
		list = append(list, fault{name: "the upstream " + name, short: short, cold: recentDays,
			begin: func(_ context.Context, w *world) error { return begin(w) },
			end: func(_ context.Context, w *world) error {
				w.upstream.hang.Store(false)
				return w.Simulator.SetFaults(gscsim.Faults{})
			}})
	}
	simulated := func(f gscsim.Faults) func(*world) error {
		return func(w *world) error { return w.Simulator.SetFaults(f) }
	}
	add("answers 500", true, simulated(gscsim.Faults{Status: http.StatusInternalServerError}))
	add("answers 503", false, simulated(gscsim.Faults{Status: http.StatusServiceUnavailable}))
	add("fails for three calls of ten", false, simulated(gscsim.Faults{Status: http.StatusInternalServerError, ErrorRate: 0.3}))
	add("drops connections", false, simulated(gscsim.Faults{DropRate: 1}))
	add("is slow", false, simulated(gscsim.Faults{LatencyMS: 2000}))
	add("hangs", false, func(w *world) error { w.upstream.hang.Store(true); return nil })
	add("refuses for its quota", false, simulated(gscsim.Faults{Reason: "quotaExceeded"}))
	add("forbids the property", false, simulated(gscsim.Faults{Reason: "forbidden"}))
	add("revokes all tokens", false, simulated(gscsim.Faults{RevokeTokens: true}))
	return list
}
