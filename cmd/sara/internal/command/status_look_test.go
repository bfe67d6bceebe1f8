package command

import (
	"database/sql"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/archive/sqlstore"
	"sara/archive/sqlstore/pgtest"
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/status"
	"sara/policy"
	"sara/proxy"
)

func TestStatusReadsOneRowWithSQLite(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	statusReadsOneRow(t, c, "sqlite:"+c.Path("sara.db"), "sqlite", c.Path("sara.db"))
}

func testStatusReadsOneRow(t *testing.T, postgres *pgtest.Server) {
	c, database := clitest.New(t, sara), postgres.NewDatabase(t)
	c.Env = append(c.Env, "SARA_DATABASE_URL="+database)
	statusReadsOneRow(t, c, database, "pgx", database)
}

// statusReadsOneRow checks that sara status and other replicas count many properties without reading a table of them: the tables are
// not there.
func statusReadsOneRow(t *testing.T, c *clitest.CLI, url, driver, source string) {
	findings := []string{"the archive of 1 of 1 properties is 2 days or more behind",
		"collecting failed in the last run for 1 of 1 properties: see the notes of the archive"}
	store := lateProperty(c, url)
	replica := fakeReplica(t, 200, proxy.Status{State: proxy.StateReady})
	counted := func(when string, byReplica bool) {
		t.Helper()
		code, r := statusOf(c, "--replica", replica)
		if code != ExitError || !slices.Equal(r.Attention, findings) || (r.CountedAt != r.CheckedAt) != byReplica ||
			r.Archive.Properties[0].Note != "it did not answer" {
			t.Errorf("%s: status %d, %q, at %s counted at %s, %+v", when, code, r.Attention, r.CheckedAt, r.CountedAt, r.Archive)
		}
	}
	register := func(ago time.Duration) *prometheus.Registry {
		t.Helper()
		now, registry := time.Now().Add(-ago), prometheus.NewRegistry()
		_, err := status.Register(&proxy.Config{Store: store, Admission: proxy.AdmissionConfig{Plans: policy.DefaultPlans()},
			Process: proxy.Process{Log: slog.New(slog.DiscardHandler), Registry: registry, Now: func() time.Time {
				now = now.Add(time.Second)
				return now
			}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return registry
	}
	register(time.Minute)
	counted("few rows", false)

	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // the test ends
	run := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	run("INSERT INTO accounts (id, name, plan, created_at) WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000)" +
		" SELECT 'a' || n, 'account ' || n, 'pro', 0 FROM numbers")
	counted("the last look was at few rows", false)
	run("DELETE FROM status_look")
	register(24 * time.Hour)
	counted("the last look was yesterday", false)
	first := scrape(t, register(time.Minute))
	for _, table := range []string{"properties", "archive_states", "index_states", "inspection_counts", "usage_counts"} {
		run("ALTER TABLE " + table + " RENAME TO hidden_" + table)
	}
	counted("many rows", true)
	if text := failing(c, "status", "--replica", replica); !strings.Contains(text, "are as of 20") ||
		!strings.HasSuffix(text, "- "+strings.Join(findings, "\n- ")+"\n") {
		t.Errorf("for people:\n%s", text)
	}
	if other := scrape(t, register(0)); !maps.Equal(other, first) || other["sara_archive_lag_days"] != 30 || other["sara_status_errors_total"] != 0 {
		t.Errorf("another replica shows %v, the one that counted %v", other, first)
	}
}

// failing returns what a command line prints that fails.
func failing(c *clitest.CLI, args ...string) string {
	c.T.Helper()
	code, stdout, stderr := c.Run(args...)
	if code != ExitError {
		c.T.Errorf("%v: status %d\n%s", args, code, stderr)
	}
	return stdout
}

// lateProperty adds a property whose archive is 30 days behind.
func lateProperty(c *clitest.CLI, url string) *sqlstore.Store {
	c.T.Helper()
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	credentials := c.Write("mine.json", `{"type":"authorized_user","client_id":"id","client_secret":"hunter2","refresh_token":"hunter2"}`)
	c.OK("connection", "add", "Web", "--name", "mine", "--no-verify", "--credentials", credentials)
	c.OK("property", "add", "mine", "sc-domain:late.example", "--no-verify")
	if err := os.Mkdir(c.Path("archive"), 0o700); err != nil {
		c.T.Fatal(err)
	}
	store, err := sqlstore.Open(c.T.Context(), sqlstore.Config{URL: url})
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() {
		if err := store.Close(); err != nil {
			c.T.Error(err)
		}
	})
	p, err := store.Property(c.T.Context(), "late.example")
	if err != nil {
		c.T.Fatal(err)
	}
	last := steadyAnchor(c, time.Now()) - 30
	state := sqlstore.ArchiveState{PropertyID: p.ID, First: &last, Last: &last, Failures: 3, Note: "it did not answer"}
	if err := store.SaveArchiveState(c.T.Context(), state); err != nil {
		c.T.Fatal(err)
	}
	return store
}
