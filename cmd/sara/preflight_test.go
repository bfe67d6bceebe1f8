package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"sara/archive/sqlstore/pgtest"
	"sara/cmd/sara/internal/service"
	"sara/cmd/sara/internal/settings"
	"sara/policy/redistest"
)

// testPreflight covers refusals by the database and Redis: serve --check and serve both name the setting and the fix.
func testPreflight(t *testing.T, _ string, postgres *pgtest.Server) {
	c := newCLI(t)
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
	odd := c.write("odd.db", strings.Repeat("not a database ", 1000))
	for _, test := range []struct{ name, setting, value, want, fix string }{
		{"Redis wants a password", "SARA_REDIS_URL", "redis://" + address, "does not answer: NOAUTH", "it requires a password: write redis://USER:PASSWORD@HOST:PORT"},
		{"Redis wants another password", "SARA_REDIS_URL", "redis://:hunter2@" + address, "does not answer: WRONGPASS", "it rejects this user or password"},
		{"no such database", "SARA_DATABASE_URL", other.String(), `database "nowhere" does not exist`, "create the database with CREATE DATABASE, or name another"},
		{"no server listens", "SARA_DATABASE_URL", "postgres://ann:hunter2@127.0.0.1:1/sara", "connection refused", "check that PostgreSQL runs"},
		{"not a database", "SARA_DATABASE_URL", "sqlite:" + odd, "file is not a database", "it is a file of another kind"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &cli{t: t, folder: c.folder, said: c.said, env: append(c.env[:len(c.env):len(c.env)], test.setting+"="+test.value)}
			for _, args := range preflights() {
				c.fails(exitError, args, "sara: "+test.setting+": ", test.want, test.fix)
			}
		})
	}
	if strings.Contains(c.said.String(), "hunter2") {
		t.Error("a secret was quoted")
	}
}

// preflights are the command lines that run all checks.
func preflights() [][]string {
	return [][]string{{"serve", "--check"}, {"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "error"}}
}

// testArchiveRefuses does the same for the archive, in processes because its credentials are in their environment.
func testArchiveRefuses(t *testing.T, binary string) {
	env := append(newCLI(t).env, "SARA_COLLECT=on", "AWS_ACCESS_KEY_ID=ann", "AWS_SECRET_ACCESS_KEY=hunter2")
	address := refusingBucket(t)
	for _, test := range []struct{ name, bucket, want, fix string }{
		{"no such bucket", "nowhere", "NoSuchBucket said the store", "create the bucket, or name another: s3://BUCKET/PREFIX"},
		{"a bucket of others", "others", "AccessDenied said the store", "let these credentials read, write, list and delete"},
		{"unknown credentials", "stranger", "InvalidAccessKeyId said the store", "set AWS_ACCESS_KEY_ID"},
	} {
		for _, args := range preflights() {
			p := start(t, binary, append(env, "SARA_ARCHIVE_URL=s3://"+test.bucket+"?region=here&endpoint="+address), args...)
			stdout, err := p.wait()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != exitError || stdout != "" {
				t.Errorf("%s: %v and output %q, want status %d and none", test.name, err, stdout, exitError)
			}
			for _, want := range []string{"sara: SARA_ARCHIVE_URL: ", test.want, test.fix} {
				if !strings.Contains(p.stderr.String(), want) {
					t.Errorf("%s: the error lacks %q:\n%s", test.name, want, p.stderr)
				}
			}
			if strings.Contains(p.stderr.String(), "hunter2") {
				t.Error("a secret was quoted")
			}
		}
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
