package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/archive/sqlstore/pgtest"
	"sara/policy"
)

func TestPools(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	t.Run("a locked table holds up only its own queries", func(t *testing.T) { testLockedTables(t, server) })
	t.Run("connections stay below their total", func(t *testing.T) { testTotalConnections(t, server) })
	t.Run("a command opens one connection", func(t *testing.T) { testCommandConnections(t, server) })
	t.Run("a process that uses the database is named", func(t *testing.T) { testOtherProcesses(t, server) })
	t.Run("a wait for the lock of a migration is interrupted", func(t *testing.T) { testInterruptedMigration(t, server) })
	t.Run("a long wait for the lock of a migration is announced", func(t *testing.T) { testAnnouncedMigration(t, server) })
	t.Run("the schema of a newer program is refused after a wait", func(t *testing.T) { testNewerMigration(t, server) })
	t.Run("a restart of the server fails no read", func(t *testing.T) { testLostConnections(t, server) })
	t.Run("a lost reply to a commit advances the generation", func(t *testing.T) { testLostCommit(t, server) })
	t.Run("everything works through PgBouncer in transaction mode", func(t *testing.T) { testTransactionPooling(t, server) })
}

// A command that reads and writes sequentially opens one connection.
func testCommandConnections(t *testing.T, server *pgtest.Server) {
	for _, database := range []string{server.NewDatabase(t), "sqlite:" + filepath.Join(t.TempDir(), "sara.db")} {
		wantNil(t, newFixture(t, database).Ping(t.Context())) // migrates it
		s := value(Open(t.Context(), Config{URL: database, Command: true}))(t)
		equal(t, value(s.Migrate(t.Context()))(t), 0)
		value(s.AddAccount(t.Context(), "Acme", "pro", nil))(t)
		equal(t, len(value(s.Accounts(t.Context()))(t)), 1)
		value(s.Edition(t.Context()))(t)
		for _, pool := range []*sql.DB{s.pools.check, s.pools.lookups, s.pools.reports, s.pools.jobs} {
			equal(t, pool, s.pools.jobs)
			equal(t, pool.Stats().OpenConnections, 1)
		}
		wantNil(t, s.Close())
	}
}

// A working process is named, through PgBouncer too; one that has ended is not, nor is one of another schema.
func testOtherProcesses(t *testing.T, server *pgtest.Server) {
	direct := server.NewDatabase(t)
	databases := []string{direct, server.StartPooler(t)}
	for _, database := range databases {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			f, other := newFixture(t, database+"&application_name=z%C3%BCrich"), newFixture(t, database+"&application_name=ours")
			var ended atomic.Bool
			var work sync.WaitGroup
			work.Go(func() {
				for !ended.Load() && !t.Failed() {
					if _, err := other.Edition(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
			processes := value(f.OtherProcesses(t.Context()))(t)
			ended.Store(true)
			work.Wait()
			_, want, _ := strings.Cut(other.session, " ")
			equal(t, processes, []string{want})
			equal(t, strings.HasPrefix(want, fmt.Sprintf("process %d on ", os.Getpid())), true)
			wantNil(t, other.Close())
			equal(t, len(value(f.OtherProcesses(t.Context()))(t)), 0)
		})
	}
}

// A name always fits, whatever the host and the URL, and two names share their prefix only for the same schema.
func TestSessionNames(t *testing.T) {
	t.Parallel()
	name := sessionName(map[string]string{applicationName: strings.Repeat("long ", 20)})
	equal(t, len(name), longestSessionName)
	begins := func(parameters map[string]string) bool {
		other := sessionName(parameters)
		return other != name && other[:sharedName] == name[:sharedName]
	}
	equal(t, begins(nil), true)
	equal(t, begins(map[string]string{"search_path": "other"}), false)
}

// waitingCallers is more than any pool's connections.
const waitingCallers = 3 * DefaultConnections

// testLockedTables locks the tables of one lane, calls its queries until all of its connections wait for the lock, and checks that
// the other lanes answer.
func testLockedTables(t *testing.T, server *pgtest.Server) {
	f := newFixture(t, server.NewDatabase(t))
	p, c := f.acme()
	site := f.property("google", "sc-domain:example.com")
	f.key(p.Email, "text")
	queries := map[string]func(context.Context) error{
		"api_keys": func(ctx context.Context) error {
			return second(f.FindKeys(ctx, []policy.Hash{keySpec("", "text").Hash}))
		},
		"edition":     func(ctx context.Context) error { return second(f.Edition(ctx)) },
		"properties":  func(ctx context.Context) error { return second(f.FindProperties(ctx, p.ID, "", "example.com")) },
		"annotations": func(ctx context.Context) error { return second(f.Annotations(ctx, site.ID, nil, nil)) },
		"brand_terms": func(ctx context.Context) error { return second(f.BrandTerms(ctx, site.ID)) },
		"index_states": func(ctx context.Context) error {
			return second(f.IndexSummary(ctx, site.ID, nil))
		},
		"connections": func(ctx context.Context) error { _, err := f.Credentials(ctx, c.ID); return err },
		"leases":      func(ctx context.Context) error { return second(f.RenewLease(ctx, "job", "holder", 1)) },
	}
	laneOf := map[string]string{"properties": "properties", "connections": "properties", "annotations": "annotations", "brand_terms": "segments",
		"index_states": "indexing"}
	// Queries that read a locked table wait for it in any lane.
	reads := map[string]string{"connections": "properties", "properties": "connections"}
	for locked, blocked := range queries {
		if locked == "api_keys" || locked == "edition" || locked == "leases" {
			continue // callers share these queries, so that few run at once
		}
		t.Run(locked, func(t *testing.T) {
			tx := value(f.pools.jobs.BeginTx(f.ctx, nil))(t)
			defer func() { _ = tx.Rollback() }()
			value(tx.ExecContext(f.ctx, "LOCK TABLE "+locked))(t)
			before := f.waitedSeconds(t)
			waiting, giveUp := context.WithCancel(f.ctx)
			var callers sync.WaitGroup
			for range waitingCallers {
				callers.Go(func() { _ = blocked(waiting) })
			}
			f.waitForLocked(t, locked)
			for table, query := range queries {
				if table != locked && reads[locked] != table {
					if err := query(f.ctx); err != nil {
						t.Errorf("%s: %v", table, err)
					}
				}
			}
			wantNil(t, f.Ping(f.ctx))
			giveUp()
			callers.Wait()
			for lane, waited := range f.waitedSeconds(t) {
				if expected := lane == laneOf[locked]; (waited > before[lane]) != expected {
					t.Errorf("queries of the lane %s waited for %v s", lane, waited-before[lane])
				}
			}
		})
	}
}

// waitedSeconds returns how long queries have waited for a turn in each lane.
func (f *fixture) waitedSeconds(t *testing.T) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	for _, collector := range f.Collectors() {
		wantNil(t, registry.Register(collector))
	}
	waited := make(map[string]float64)
	for _, family := range value(registry.Gather())(t) {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "sara_database_lane_wait_seconds_total" {
				waited[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
			}
		}
	}
	equal(t, len(waited), 7)
	return waited
}

// waitForLocked waits until a lane has as many queries waiting for a table as it can.
func (f *fixture) waitForLocked(t *testing.T, table string) {
	t.Helper()
	least := map[string]int{"properties": cap(f.properties.turns), "connections": cap(f.properties.turns)}[table]
	if least == 0 {
		least = cap(f.annotations.turns)
	}
	for {
		n := value(one(f.ctx, f.pools.check, scalar[int], "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"+
			" WHERE NOT l.granted AND c.relname = $1 AND c.relnamespace = current_schema()::regnamespace", table))(t)
		if n >= least {
			return
		}
	}
}

func second[T any](_ T, err error) error { return err }

func testTotalConnections(t *testing.T, server *pgtest.Server) {
	const total = 9
	url := server.NewDatabase(t)
	for _, c := range []Config{{URL: url, Connections: total}, {URL: url + "&pool_max_conns=9"}, {URL: url + "&pool_max_conns=50", Connections: total}} {
		s := value(Open(t.Context(), c))(t)
		most := 0
		for _, pool := range []*sql.DB{s.pools.check, s.pools.lookups, s.pools.reports, s.pools.jobs} {
			most += pool.Stats().MaxOpenConnections
		}
		equal(t, most, total)
		wantNil(t, s.Close())
	}
}

func TestBadConnections(t *testing.T) {
	for _, test := range []struct{ parameters, problem string }{
		{"?pool_max_conns=7", `pool_max_conns="7" is not a number from 8 to 1000: correct it, or remove it and set SARA_DATABASE_CONNECTIONS`},
		{"?pool_max_conns=many", `pool_max_conns="many" is not a number from 8 to 1000: correct it, or remove it and set SARA_DATABASE_CONNECTIONS`},
		{"?pool_min_conns=2",
			"it has the parameter pool_min_conns, which sara does not support: remove it, and set the number of connections with SARA_DATABASE_CONNECTIONS"},
	} {
		_, err := Open(t.Context(), Config{URL: "postgres://sara@127.0.0.1:1/sara" + test.parameters})
		equal(t, *refusal[*InputError](t, err), InputError{"database URL", test.problem})
	}
	_, err := Open(t.Context(), Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "sara.db"), Connections: 7})
	equal(t, refusal[*InputError](t, err).Reason, "7 is not a number from 8 to 1000")
}

// A migration that gets no connection for its lock fails when its context ends.
func testInterruptedMigration(t *testing.T, server *pgtest.Server) {
	s := value(Open(t.Context(), Config{URL: server.NewDatabase(t)}))(t)
	var taken []*sql.Conn
	for range s.pools.reports.Stats().MaxOpenConnections {
		taken = append(taken, value(s.pools.reports.Conn(t.Context()))(t))
	}
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := s.lockMigration(ctx)
		ended <- err
	}()
	interrupt()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted wait ends with %v", err)
	}
	for _, c := range taken {
		wantNil(t, c.Close())
	}
	unlock := value(s.lockMigration(t.Context()))(t)
	unlock()
	wantNil(t, s.Close())
}

// A process that waits for another one's migration says so once, after a second.
func testAnnouncedMigration(t *testing.T, server *pgtest.Server) {
	url := server.NewDatabase(t)
	other := value(Open(t.Context(), Config{URL: url}))(t)
	held := value(other.lockMigration(t.Context()))(t)
	var now time.Time
	var announced []time.Time
	ticks := 0
	s := value(Open(t.Context(), Config{URL: url, OnMigrationWait: func(time.Duration) { announced = append(announced, now) }, Now: func() time.Time {
		if ticks++; ticks == 6 {
			held()
		}
		now = now.Add(migrationNotice / 2)
		return now
	}}))(t)
	unlock := value(s.lockMigration(t.Context()))(t)
	unlock()
	equal(t, announced, []time.Time{time.Time{}.Add(migrationNotice / 2).Add(migrationNotice)})
	wantNil(t, errors.Join(s.Close(), other.Close()))
}

// The schema may become that of a newer program while Migrate waits for the lock.
func testNewerMigration(t *testing.T, server *pgtest.Server) {
	f := newFixture(t, server.NewDatabase(t))
	provider := value(f.migrator())(t)
	latest := value(provider.GetDBVersion(t.Context()))(t)
	value(provider.Down(t.Context()))(t)
	migrateByNewer := sync.OnceFunc(func() {
		value(provider.Up(t.Context()))(t)
		value(affected(t.Context(), f.changes, "INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, $2)", latest+1, true))(t)
	})
	s := value(Open(t.Context(), Config{URL: f.url, Now: func() time.Time {
		migrateByNewer() // when it begins to wait
		return f.time
	}}))(t)
	_, err := s.Migrate(t.Context())
	equal(t, *refusal[*SchemaError](t, errors.Join(err, s.Close())), SchemaError{latest + 1, latest})
}

// When PostgreSQL restarts, all connections are lost, also those that were used a moment ago. The server looks as if it had restarted here: it
// has ended all sessions of the store.
func testLostConnections(t *testing.T, server *pgtest.Server) {
	url := server.NewDatabase(t)
	s, other := value(Open(t.Context(), Config{URL: url}))(t), value(Open(t.Context(), Config{URL: url, Command: true}))(t)
	value(s.Migrate(t.Context()))(t)
	const ofStore = " FROM pg_stat_activity WHERE application_name = $1"
	for name, use := range map[string]func() error{
		"a listing": func() error { _, err := s.Accounts(t.Context()); return err },
		"a lookup":  func() error { _, err := s.FindKeys(t.Context(), []policy.Hash{{1}}); return err },
		"a snapshot": func() error {
			return snapshot(t.Context(), s.indexing, readLimit, func(context.Context, *sql.Tx) error { return nil })
		},
		"a change, from BEGIN": func() error { _, err := s.AddAccount(t.Context(), rand.Text(), "pro", nil); return err },
	} {
		var all sync.WaitGroup
		for range 6 { // so that several connections are lost
			all.Go(func() { wantNil(t, use()) })
		}
		all.Wait()
		value(affected(t.Context(), other.pools.jobs, "SELECT pg_terminate_backend(pid)"+ofStore, s.session))(t)
		for value(one(t.Context(), other.pools.jobs, scalar[int], "SELECT count(*)"+ofStore, s.session))(t) > 0 {
			continue // a session ends soon after it was told to
		}
		for range 6 {
			if err := use(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	wantNil(t, errors.Join(s.Close(), other.Close()))
}

// testTransactionPooling runs what processes do concurrently: migrate, look up, write in transactions, and hold leases.
func testTransactionPooling(t *testing.T, server *pgtest.Server) {
	url := server.StartPooler(t)
	const processes = 4
	errs := make(chan error, processes)
	for range processes {
		go func() { errs <- serveThroughPooler(t.Context(), url) }()
	}
	for range processes {
		wantNil(t, <-errs)
	}
	s := value(Open(t.Context(), Config{URL: url}))(t)
	accounts := value(s.Accounts(t.Context()))(t)
	equal(t, len(accounts), 1)
	equal(t, value(s.Edition(t.Context()))(t), uint64(1))
	wantNil(t, s.Close())
}

func serveThroughPooler(ctx context.Context, url string) error {
	s, err := Open(ctx, Config{URL: url})
	if err != nil {
		return err
	}
	_, err = s.Migrate(ctx)
	if err == nil {
		if _, err = s.AddAccount(ctx, "acme", "pro", nil); err != nil && strings.Contains(err.Error(), "already exists") {
			err = nil
		}
	}
	for range 20 {
		_, lookupErr := s.FindKeys(ctx, []policy.Hash{{1}, {2}})
		_, propertyErr := s.FindProperties(ctx, "person", "", "example.com")
		_, editionErr := s.Edition(ctx)
		_, leaseErr := s.AcquireLease(ctx, "job", url, 1)
		err = errors.Join(err, lookupErr, propertyErr, editionErr, leaseErr, s.Ping(ctx))
	}
	return errors.Join(err, s.Close())
}
