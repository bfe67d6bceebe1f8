package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/command"
	"sara/cmd/sara/internal/demo"
	"sara/policy/redistest"
	"sara/proxy/upstream/gscsim"
)

// monitor records all commands that a Redis receives, with their arguments.
func monitor(t *testing.T, server *redistest.Server, password string) *clitest.Transcript {
	t.Helper()
	connection, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	if _, err := fmt.Fprintf(connection, "AUTH %s\r\nMONITOR\r\n", password); err != nil {
		t.Fatal(err)
	}
	commands := new(clitest.Transcript)
	go func() { _, _ = io.Copy(commands, connection) }() // until it is closed
	clitest.Poll(t, "MONITOR", func() bool { return strings.Count(commands.String(), "+OK") == 2 })
	return commands
}

// addDump adds all that is in servers, with the settings that clients can read.
func addDump(t *testing.T, e clitest.Evidence, servers ...*redistest.Server) {
	t.Helper()
	for _, server := range servers {
		client := server.Client()
		keys, err := client.Keys(t.Context(), "*").Result()
		if err != nil || len(keys) == 0 {
			t.Errorf("%d keys, %v", len(keys), err)
		}
		for _, key := range keys {
			value, err := client.Dump(t.Context(), key).Result()
			if err != nil && client.Exists(t.Context(), key).Val() > 0 { // it may have expired
				t.Error(err)
			}
			e.Add("a dump of Redis", key+" "+value)
		}
		e.Add("a dump of Redis", client.ClientList(t.Context()).Val())
	}
}

// commandLines returns the command lines of a process and its children, as ps shows them.
func commandLines(t *testing.T, pid int) (lines string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		status, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if text := string(status); strings.Contains(text, fmt.Sprintf("\nPid:\t%d\n", pid)) || strings.Contains(text, fmt.Sprintf("\nPPid:\t%d\n", pid)) {
			line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			if err != nil {
				t.Error(err)
			}
			lines += string(line) + "\n"
		}
	}
	return lines
}

// upstreamFails lets Google refuse.
func (w *markedWorld) upstreamFails(base, key string) {
	for i, faults := range []gscsim.Faults{{Status: http.StatusUnauthorized}, {Status: http.StatusForbidden, Reason: "forbidden"},
		{Reason: "quotaExceeded"}, {Status: http.StatusInternalServerError}, {DropRate: 1}, {RevokeTokens: true}} {
		if err := w.simulator.SetFaults(faults); err != nil {
			w.T.Fatal(err)
		}
		for _, slug := range []string{"shop", "prefix"} {
			w.get("an answer", fmt.Sprintf("%s/v1/properties/%s/queries?limit=%d&date_range=last_7d", base, slug, i+10), bearer(key))
		}
	}
	w.Fails(command.ExitError, []string{"connection", "add", "Web", "--name", "late",
		"--credentials", w.Path(demo.StrangerConnection + ".json")}, "access token")
	if err := w.simulator.SetFaults(gscsim.Faults{}); err != nil {
		w.T.Fatal(err)
	}
}

// readAdmin reads all that the admin listener serves.
func (w *markedWorld) readAdmin(admin string) {
	w.get("the metrics", admin+"/metrics", nil)
	w.get("an answer", admin+"/readyz", http.Header{"Accept": {"application/json"}})
	var readers sync.WaitGroup
	var mu sync.Mutex // guards the evidence
	for _, profile := range []string{"", "cmdline", "heap", "heap?debug=1", "allocs", "goroutine", "goroutine?debug=1", "goroutine?debug=2",
		"block?debug=1", "mutex?debug=1", "threadcreate?debug=1", "symbol", "profile?seconds=1", "trace?seconds=1"} {
		readers.Go(func() {
			one := markedWorld{CLI: w.CLI, seen: make(clitest.Evidence)}
			one.get("a profile", admin+"/debug/pprof/"+profile, nil)
			mu.Lock()
			defer mu.Unlock()
			w.seen.Add("a profile", string(one.seen["a profile"]))
		})
	}
	readers.Wait()
}

// backendsFail takes away what the server needs, one after the other.
func (w *markedWorld) backendsFail(base, admin, key string) {
	asks := func() {
		w.get("an answer", base+"/v1/properties/shop/queries?start_date=2020-01-01&end_date=2020-01-31", bearer(key)) // of the archive
		w.get("an answer", base+"/v1/properties/shop/brand-terms", bearer(key))
		w.get("an answer", base+"/v1/me", bearer(w.mark("a wrong key", strings.Repeat("x", 5)+key)))
		w.get("an answer", admin+"/readyz", http.Header{"Accept": {"application/json"}})
		w.get("the metrics", admin+"/metrics", nil)
	}
	asks()
	w.rows.Kill()
	asks()
	w.counters.Kill()
	asks()
	w.database.down()
	asks()
}

const wrongSecret = "MarkOfWrongSettings"

// wrongSettings are settings of the environment with a secret in place of %s, all of which are refused.
func wrongSettings() []string {
	return []string{"SARA_SECRET_KEY=%s", "SARA_SECRET_KEY=TWFyaw==%s",
		"SARA_SECRET_KEY_PREVIOUS=" + clitest.SecretKey + ",%s", "SARA_DATABASE_URL=%s", "SARA_DATABASE_URL=mysql://sara:%s@127.0.0.1/sara",
		"SARA_DATABASE_URL=postgres://sara:%s@127.0.0.1:1/sara", "SARA_DATABASE_URL=postgres://sara:%s@127.0.0.1:port/sara",
		"SARA_DATABASE_URL=postgres://sara:%s%%zz@127.0.0.1/sara", "SARA_DATABASE_URL=host=127.0.0.1 password=%s",
		"SARA_DATABASE_URL=postgres://127.0.0.1:1/sara?password=%s&sslmode=perhaps",
		"SARA_DATABASE_URL=postgres://sara:%s@127.0.0.1:1/sara?connect_timeout=soon", "SARA_DATABASE_URL=postgres://sara:%s@[::1/sara",
		"SARA_DATABASE_URL=sqlite://sara:%s@127.0.0.1/sara", "SARA_REDIS_URL=%s", "SARA_REDIS_URL=http://:%s@127.0.0.1",
		"SARA_REDIS_URL=redis://:%s@127.0.0.1:1", "SARA_REDIS_URL=redis://:%s@127.0.0.1:port",
		"SARA_REDIS_URL=redis://:%s@127.0.0.1:1/nonsense", "SARA_REDIS_URL=redis://:%s%%zz@127.0.0.1:1",
		"SARA_REDIS_URL=redis://127.0.0.1:1?password=%s&nonsense=1",
		"SARA_REDIS_URL=redis://127.0.0.1:1?master_name=m&sentinel_password=%s&db=x", "SARA_REDIS_URL=rediss://user:%s@127.0.0.1:1,127.0.0.1:2",
		"SARA_REDIS_CACHE_URL=redis://:%s@127.0.0.1:port", "SARA_ARCHIVE_URL=s3://key:%s@bucket",
		"SARA_ARCHIVE_URL=s3://bucket?endpoint=http://key:%s@127.0.0.1:1", "SARA_ARCHIVE_URL=s3://bucket?secret_key=%s",
		"SARA_ARCHIVE_URL=ftp://me:%s@127.0.0.1", "SARA_ARCHIVE_URL=s3://bucket?endpoint=%%zz%s", "SARA_UPSTREAM_URL=http://me:%s@127.0.0.1:1",
		"SARA_OAUTH_TOKEN_URL=http://me:%s@127.0.0.1:1?x=y", "SARA_BASE_URL=http://me:%s@127.0.0.1", "SARA_DOCS_URL=http://me:%s@127.0.0.1",
		"OTEL_EXPORTER_OTLP_HEADERS=%s", "OTEL_EXPORTER_OTLP_ENDPOINT=http://me:%s@127.0.0.1:port",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://me:%s%%zz@127.0.0.1"}
}

// misconfigure runs commands with wrong settings and wrong files, each of which has a secret.
func (w *markedWorld) misconfigure() {
	check := []string{"serve", "--check"}
	for _, setting := range wrongSettings() {
		text := fmt.Sprintf(setting, wrongSecret)
		if strings.HasPrefix(text, "OTEL") {
			text += "\x00OTEL_TRACES_EXPORTER=otlp"
		}
		name, _, _ := strings.Cut(text, "=")
		env := append(strings.Split(text, "\x00"), name+"_FILE=")
		if status, _, _ := w.With(env...).Run(check...); status == command.ExitOK {
			w.T.Errorf("%s: it is accepted", setting)
		}
	}
	for i, file := range []string{"secret_key: [%s]", "secret_key: \"%s", "- %s", "%s", "redis_url: {password: %s}",
		"secret_key: %s\nsecret_key: %s", "redis_url: redis://:%s@127.0.0.1:port", "redis_url: *%s", "secret_key: !!int %s", "redis_url: !%s x",
		"secret_key:\n\t%s", "secret_key: |\n %s\n bad", "%%%s"} {
		config := w.Write(fmt.Sprintf("wrong%d.yaml", i), strings.ReplaceAll(file, "%s", wrongSecret)) // the database and its files are apart
		mustFail(w.With("SARA_CONFIG="+config), check...)
	}
	for _, flags := range [][]string{{"--redis-url", "redis://:%s@127.0.0.1:1"}, {"--database-url=postgres://sara:%s@127.0.0.1:1/sara"},
		{"--secret-key", "%s"}, {"--secret-key-previous=%s"}, {"--redis-cache-url", "redis://127.0.0.1:1?password=%s"},
		{"--archive-url", "s3://key:%s@bucket"}} {
		for i := range flags {
			flags[i] = strings.ReplaceAll(flags[i], "%s", wrongSecret)
		}
		mustFail(w.CLI, append(check, flags...)...)
	}
	for i, file := range []string{"%s",
		`{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----", ` +
			`"client_email": "a@b.example", "token_uri": "TOKEN"}`,
		`{"type": "%s"}`, `{"type": "authorized_user", "client_id": "me", "client_secret": "%s", "refresh_token": "%s"}`,
		`{"type": "authorized_user", "client_secret": "%s"`,
		`{"type": "service_account", "private_key": ["%s"]}`,
		`{"type": "service_account", "private_key": "%s", "client_email": "a@b.example", "token_uri": "https://evil.example/"}`} {
		path := w.Write(fmt.Sprintf("wrong%d.json", i), strings.ReplaceAll(file, "%s", wrongSecret))
		mustFail(w.With("SARA_DATABASE_URL_FILE=", "SARA_DATABASE_URL=sqlite:"+w.Path("other.db")), "connection", "add", "Web", "--credentials", path)
	}
	mustFail(w.With(w.env...), "status")
	mustFail(w.With(w.env...), check...)
}

// mustFail runs a command line that must fail.
func mustFail(c *clitest.CLI, args ...string) {
	c.T.Helper()
	if status, _, _ := c.Run(args...); status == command.ExitOK {
		c.T.Errorf("sara %s: it is accepted", strings.Join(args, " "))
	}
}
