package command

import (
	"context"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"

	"sara/archive/sqlstore/pgtest"
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/service"
	"sara/cmd/sara/internal/settings"
	"sara/policy/redistest"
)

// testPreflight covers refusals by the database and Redis: serve --check and serve both name the setting and the fix.
func testPreflight(t *testing.T, postgres *pgtest.Server) {
	c := clitest.New(t, sara)
	guarded := redistest.Single(t)
	if err := guarded.Client().ConfigSet(t.Context(), "requirepass", "sesame").Err(); err != nil {
		t.Fatal(err)
	}
	address := guarded.Addr()
	database, err := url.Parse(postgres.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	other := *database
	other.Path = "/nowhere"
	odd := c.Write("odd.db", strings.Repeat("not a database ", 1000))
	for _, test := range []struct{ name, setting, value, want, fix string }{
		{"Redis wants a password", "SARA_REDIS_URL", "redis://" + address, "does not answer: NOAUTH",
			"it requires a password: write redis://USER:PASSWORD@HOST:PORT"},
		{"Redis wants another password", "SARA_REDIS_URL", "redis://:hunter2@" + address, "does not answer: WRONGPASS", "it rejects this user or password"},
		{"no such database", "SARA_DATABASE_URL", other.String(), `database "nowhere" does not exist`,
			"create the database with CREATE DATABASE, or name another"},
		{"no server listens", "SARA_DATABASE_URL", "postgres://ann:hunter2@127.0.0.1:1/sara", "connection refused", "check that PostgreSQL runs"},
		{"not a database", "SARA_DATABASE_URL", "sqlite:" + odd, "file is not a database", "it is a file of another kind"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := c.With(test.setting + "=" + test.value).In(t)
			for _, args := range clitest.Preflights() {
				c.Fails(ExitError, args, "sara: "+test.setting+": ", test.want, test.fix)
			}
		})
	}
	if strings.Contains(c.Said.String(), "hunter2") {
		t.Error("a secret was quoted")
	}
}

// A notice receives the output of a process, and calls do once it has a text.
type notice struct {
	strings.Builder
	text string
	do   func()
}

func (n *notice) Write(b []byte) (int, error) {
	before := strings.Contains(n.String(), n.text)
	_, err := n.Builder.Write(b)
	if !before && strings.Contains(n.String(), n.text) {
		n.do()
	}
	return len(b), err
}

// testAnnouncedMigration runs a command while another process migrates: it must not look as if it hung. The lock is that of the migration.
func testAnnouncedMigration(t *testing.T, postgres *pgtest.Server) {
	address := postgres.NewDatabase(t)
	holder, err := pgx.Connect(t.Context(), address)
	if err == nil {
		_, err = holder.Exec(t.Context(), "SELECT pg_advisory_lock(1935766625, hashtext(current_schema()))")
	}
	if err != nil {
		t.Fatal(err)
	}
	errs := &notice{text: "sara: another process is migrating the database: waiting for it, for up to 5m0s\n", do: func() {
		if err := holder.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	env := []string{"SARA_DATABASE_URL=" + address}
	if status := sara(ctx, []string{"migrate", "--json"}, env, strings.NewReader(""), io.Discard, errs); status != 0 ||
		!strings.Contains(errs.String(), errs.text) {
		t.Errorf("status %d: %s", status, errs)
	}
}

// The URL of a Sentinel has two passwords, and a name that only the sentinels know.
func TestPreflightNamesWhatASentinelRefuses(t *testing.T) {
	t.Parallel()
	open, guarded := redistest.Sentinel(t), redistest.Sentinel(t)
	for _, server := range []*redistest.Server{open.Nodes[0], guarded.Sentinels[0]} {
		if err := server.Client().Do(t.Context(), "acl", "setuser", "default", "resetpass", ">sesame").Err(); err != nil {
			t.Fatal(err)
		}
	}
	c := clitest.New(t, sara)
	sentinel, locked := open.Sentinels[0].Addr(), guarded.Sentinels[0].Addr()
	for _, test := range []struct{ name, url, want string }{
		{"the master wants a password", "redis://:hunter2@" + sentinel + "?master_name=sara", "the master requires a password"},
		{"the master wants another one", "redis://" + sentinel + "?master_name=sara&password=hunter2", "&username=USER&password=PASSWORD"},
		{"the sentinel wants a password", "redis://" + locked + "?master_name=sara&password=hunter2", "the sentinels require a password"},
		{"the sentinel wants another one", "redis://:hunter2@" + locked + "?master_name=sara", "write theirs before the @"},
		{"another name", "redis://" + sentinel + "?master_name=mymaster", "the sentinels know no master with the name of master_name"},
		{"no name", "redis://" + sentinel, "it is a Sentinel, which has no data: add ?master_name=NAME"},
		{"no sentinel", "redis://" + guarded.Nodes[0].Addr() + "?master_name=sara", "it is no Sentinel"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := c.With("SARA_REDIS_URL=" + test.url).In(t)
			for _, args := range clitest.Preflights() {
				c.Fails(ExitError, args, "sara: SARA_REDIS_URL: redis://", test.want)
			}
		})
	}
	c.With("SARA_REDIS_URL=redis://"+sentinel+"?master_name=sara&password=sesame").OK("serve", "--check")
	if strings.Contains(c.Said.String(), "hunter2") {
		t.Error("a secret was quoted")
	}
}

// A program that was rolled back must not say that all is well and then refuse to serve.
func TestPreflightRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.OK("migrate")
	execSQL(t, c, "INSERT INTO goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, TRUE FROM goose_db_version")
	for _, args := range clitest.Preflights() {
		c.Fails(ExitError, args, "sara: SARA_DATABASE_URL: sqlite:"+c.Path("sara.db")+": the database has schema version ", "run the newer program")
	}
}

// An update that migrates cannot be rolled back without a backup of the version before.
func TestPreflightAnnouncesAMigration(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	const note = "Note: serve migrates the database from schema version "
	if said := c.OK("serve", "--check"); strings.Contains(said, note) {
		t.Errorf("without a migration:\n%s", said)
	}
	execSQL(t, c, "DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)")
	if said := c.OK("serve", "--check"); !strings.Contains(said, note) {
		t.Errorf("with one:\n%s", said)
	}
}

// parseServe parses a command line of serve.
func parseServe(t *testing.T, args ...string) *serveCommand {
	t.Helper()
	return parseServeIn(t, nil, args...)
}

// parseServeIn parses a command line of serve in an environment.
func parseServeIn(t *testing.T, environ []string, args ...string) *serveCommand {
	t.Helper()
	loader := settings.NewLoader(environ, nil)
	var line struct {
		Serve serveCommand `cmd:""`
	}
	parser, err := kong.New(&line, loader.Options()...)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(append([]string{"serve"}, args...))
	if err == nil {
		err = loader.Parse(parsed)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &line.Serve
}

func TestPreflightStartsWithoutUnavailableServers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it waits for retries to time out")
	}
	command := parseServe(t, "--redis-url", "redis://127.0.0.1:1", "--collect", "on",
		"--archive-url", "s3://away?region=here&endpoint=http://127.0.0.1:1")
	var said strings.Builder
	log := service.OpenLogs(&said, settings.Log{})
	if err := command.preflight(t.Context(), log.Logger); err != nil {
		t.Errorf("serving does not begin: %v", err)
	}
	for _, want := range []string{"SARA_REDIS_URL: redis://127.0.0.1:1 does not answer: ", "SARA_ARCHIVE_URL: s3://away"} {
		if strings.Count(said.String(), want) != 1 {
			t.Errorf("the log does not have %q once:\n%s", want, said.String())
		}
	}
}
