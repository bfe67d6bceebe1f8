package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"sara/archive/sqlstore/pgtest"
	"sara/cmd/sara/internal/service"
	"sara/cmd/sara/internal/settings"
	"sara/policy/redistest"
)

// TestPreflightReportsRefusalAndFix covers refusals by the database, Redis and the archive: serve --check and serve both name
// the setting and the fix.
func TestPreflightReportsRefusalAndFix(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts Redis and PostgreSQL")
	}
	c := newCLI(t)
	guarded := redistest.Single(t)
	if err := guarded.Client().ConfigSet(t.Context(), "requirepass", "sesame").Err(); err != nil {
		t.Fatal(err)
	}
	address := guarded.Addr()
	database, err := url.Parse(pgtest.Start(t).NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	other := *database
	other.Path = "/nowhere"
	bucket := refusingBucket(t)
	odd := c.write("odd.db", strings.Repeat("not a database ", 1000))
	t.Setenv("AWS_ACCESS_KEY_ID", "ann")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	for _, test := range []struct{ name, setting, value, want, fix string }{
		{"Redis wants a password", "SARA_REDIS_URL", "redis://" + address, "does not answer: NOAUTH", "it requires a password: write redis://USER:PASSWORD@HOST:PORT"},
		{"Redis wants another password", "SARA_REDIS_URL", "redis://:hunter2@" + address, "does not answer: WRONGPASS", "it rejects this user or password"},
		{"no such database", "SARA_DATABASE_URL", other.String(), `database "nowhere" does not exist`, "create the database with CREATE DATABASE, or name another"},
		{"no server listens", "SARA_DATABASE_URL", "postgres://ann:hunter2@127.0.0.1:1/sara", "connection refused", "check that PostgreSQL runs"},
		{"not a database", "SARA_DATABASE_URL", "sqlite:" + odd, "file is not a database", "it is a file of another kind"},
		{"no such bucket", "SARA_ARCHIVE_URL", "s3://nowhere?region=here&endpoint=" + bucket, "NoSuchBucket said the store", "create the bucket, or name another: s3://BUCKET/PREFIX"},
		{"a bucket of others", "SARA_ARCHIVE_URL", "s3://others?region=here&endpoint=" + bucket, "AccessDenied said the store", "let these credentials read, write, list and delete"},
		{"unknown credentials", "SARA_ARCHIVE_URL", "s3://stranger?region=here&endpoint=" + bucket, "InvalidAccessKeyId said the store", "set AWS_ACCESS_KEY_ID"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &cli{t: t, folder: c.folder, said: c.said, env: append(c.env[:len(c.env):len(c.env)], test.setting+"="+test.value, "SARA_COLLECT=on")}
			for _, args := range [][]string{{"serve", "--check"}, {"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "error"}} {
				c.fails(exitError, args, "sara: "+test.setting+": ", test.want, test.fix)
			}
		})
	}
	if strings.Contains(c.said.String(), "hunter2") {
		t.Error("a secret was quoted")
	}
}

// parseServe parses a command line of serve.
func parseServe(t *testing.T, args ...string) *serveCommand {
	t.Helper()
	loader := settings.NewLoader(nil)
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
	if testing.Short() {
		t.Skip("it waits for retries to time out")
	}
	command := parseServe(t, "--redis-url", "redis://127.0.0.1:1", "--collect", "on", "--archive-url", "s3://away?region=here&endpoint=http://127.0.0.1:1")
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

// refusingBucket is a store that refuses everything, for a reason that depends on the bucket.
func refusingBucket(t *testing.T) (address string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, status := "AccessDenied", http.StatusForbidden
		switch {
		case strings.HasPrefix(r.URL.Path, "/nowhere"):
			code, status = "NoSuchBucket", http.StatusNotFound
		case strings.HasPrefix(r.URL.Path, "/stranger"):
			code = "InvalidAccessKeyId"
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<Error><Code>" + code + "</Code><Message>" + code + " said the store</Message></Error>"))
	}))
	t.Cleanup(server.Close)
	return server.URL
}
