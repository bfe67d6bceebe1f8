package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"sara/archive/sqlstore/pgtest"
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/command"
	"sara/cmd/sara/internal/demo"
	"sara/policy"
	"sara/policy/redistest"
	"sara/proxy/upstream/gscsim"
)

// A markedWorld is a server with marks for secrets, whatever it works with, and what it has written anywhere.
type markedWorld struct {
	*clitest.CLI
	binary         string
	env            []string // of the server
	simulator      *gscsim.Server
	database       *databaseFront
	counters, rows *redistest.Server
	traces         *receiver
	seen           clitest.Evidence

	mu      sync.Mutex // guards the following field
	secrets map[string]string
}

const (
	markedKey         = "the current mark of a secret key"
	markedPreviousKey = "a former mark of the same length"
)

// newMarkedWorld gives the secrets in every way: the variable, the file that a variable names, and the settings file.
func newMarkedWorld(t *testing.T, binary, database string) *markedWorld {
	t.Helper()
	current, previous := base64.StdEncoding.EncodeToString([]byte(markedKey)), base64.StdEncoding.EncodeToString([]byte(markedPreviousKey))
	w := &markedWorld{binary: binary, seen: make(clitest.Evidence), secrets: map[string]string{
		"the secret key": current, "the bytes of the secret key": markedKey, "a previous key": previous, "the bytes of a previous key": markedPreviousKey,
		"the password of the database": "MarkOfTheDatabase", "the password of Redis": "MarkOfTheCounters",
		"the password of the other Redis": "MarkOfTheRows", "the key of the store": "MarkOfTheStore", "the header of the collector": "MarkOfTheCollector",
		"a secret in wrong settings": "MarkOfWrongSettings",
	}}
	people, simulator := clitest.SimulateBehind(t, w.recordTokens)
	for name, secret := range clitest.SecretsOf(t, people) {
		if name != "the secret key" {
			w.secrets[name] = secret
		}
	}
	w.CLI, w.simulator, w.traces = clitest.New(t, sara).Against(people), simulator, newReceiver(t)
	w.database = inFrontOf(t, database)
	w.counters = redistest.Single(t, "--requirepass", "MarkOfTheCounters", "--rdbcompression", "no")
	w.rows = redistest.Single(t, "--requirepass", "MarkOfTheRows", "--rdbcompression", "no")
	outside := t.TempDir() // not searched
	file := func(name, text string) string {
		path := filepath.Join(outside, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	w.CLI.Env = append(w.CLI.Env, "SARA_SECRET_KEY=", "SARA_SECRET_KEY_FILE="+file("key", current+"\n"), "SARA_SECRET_KEY_PREVIOUS="+previous,
		"SARA_DATABASE_URL=", "SARA_DATABASE_URL_FILE="+file("database", w.database.url+"&password=MarkOfTheDatabase"),
		"SARA_REDIS_URL=redis://:MarkOfTheCounters@"+w.counters.Addr(), "SARA_PLANS_FILE="+file("plans.yaml", unlimitedPlans),
		"SARA_CONFIG="+file("sara.yaml", "redis_cache_url: redis://:MarkOfTheRows@"+w.rows.Addr()+"\n"))
	store := httptest.NewServer(http.HandlerFunc(refuseStore))
	t.Cleanup(store.Close)
	w.env = append(w.CLI.Env[:len(w.CLI.Env):len(w.CLI.Env)], "SARA_LOG_LEVEL=debug", "SARA_ACCESS_LOG_SAMPLE=1", "SARA_PPROF=on", "GOTRACEBACK=crash",
		"SARA_ARCHIVE_URL=s3://bucket/archive?region=us-east-1&endpoint="+store.URL, "AWS_ACCESS_KEY_ID=mark", "AWS_SECRET_ACCESS_KEY=MarkOfTheStore",
		"OTEL_EXPORTER_OTLP_ENDPOINT="+w.traces.URL, "OTEL_EXPORTER_OTLP_HEADERS=api-key=MarkOfTheCollector", "OTEL_BSP_SCHEDULE_DELAY=50")
	return w
}

// recordTokens remembers the access tokens that sara sends to Search Console.
func (w *markedWorld) recordTokens(simulator http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if token, ok := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer "); ok {
			w.mark("an access token", token)
		}
		simulator.ServeHTTP(response, request)
	})
}

// mark adds a secret. Those of one name are numbered.
func (w *markedWorld) mark(name, secret string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(slices.Collect(maps.Values(w.secrets)), secret) {
		w.secrets[fmt.Sprint(name, " ", len(w.secrets))] = secret
	}
	return secret
}

// refuseStore is an object store that rejects all credentials.
func refuseStore(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>SignatureDoesNotMatch</Code><Message>The signature is wrong.</Message></Error>`)
}

// get sends a request to a server, and keeps the answer.
func (w *markedWorld) get(place, address string, header http.Header) clitest.Answer {
	w.T.Helper()
	request, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		w.T.Fatal(err)
	}
	maps.Copy(request.Header, header)
	client := http.Client{Timeout: clitest.Hurry, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	response, err := client.Do(request)
	if err != nil {
		w.T.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		w.T.Fatal(err)
	}
	w.seen.Add(place, fmt.Sprint(response.Status, response.Header, "\n")+string(body))
	if unzipped, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
		if text, err := io.ReadAll(unzipped); err == nil {
			w.seen.Add(place, string(text))
		}
	}
	return clitest.Answer{Status: response.StatusCode, Body: string(body)}
}

// Every secret that sara has is marked, and sara is used: rightly, wrongly, and while what it needs is away or refuses. Then no mark is
// where others can read: command lines, logs, answers, metrics, profiles, traces, both Redis, the database, files, and what a crash
// leaves.
func testSecretsDoNotLeak(t *testing.T, binary string, postgres *pgtest.Server) {
	database := postgres.NewDatabase(t)
	w := newMarkedWorld(t, binary, database)
	issuer := *w.CLI
	issuer.Said = new(strings.Builder) // a new key is printed
	newKey := issuer.Customer()
	key, _ := newKey("in use")
	revoked, id := newKey("revoked")
	w.mark("an API key", key)
	w.mark("a revoked key", revoked)
	w.OK("key", "revoke", id)
	w.OK("connection", "add", "Web", "--name", "mine", "--credentials", w.Path(demo.PortfolioConnection+".json"))
	w.WithProperty()
	w.OK("archive", "import", "shop", w.Write("history.csv", clitest.CSVHeader+clitest.SomeHistory))
	commands := [2]*clitest.Transcript{monitor(t, w.counters, "MarkOfTheCounters"), monitor(t, w.rows, "MarkOfTheRows")}

	p, base, admin := serving(t, binary, w.env)
	w.useAPI(base, key, revoked)
	w.upstreamFails(base, key)
	w.readAdmin(admin)
	w.seen.Add("a command line", commandLines(t, p.command.Process.Pid))
	for i, name := range []string{"the Redis of counters", "the Redis of rows"} {
		if text := commands[i].String(); strings.Count(text, "\n") < 10 {
			t.Errorf("%s got no commands:\n%s", name, text)
		}
		w.seen.Add(name, commands[i].String())
	}
	addDump(t, w.seen, w.counters, w.rows)
	w.With("SARA_REDIS_URL=redis://:"+wrongSecret+"@"+w.rows.Addr()).Fails(command.ExitError, []string{"serve", "--check"}, "WRONGPASS")
	w.backendsFail(base, admin, key)
	clitest.Poll(t, "a trace arrives", w.addTraces)
	p.signal(syscall.SIGQUIT) // prints all stacks, as a crash does
	_, _ = p.wait()           // its status is that of the signal
	w.seen.Add("the log", p.stderr.String())
	w.seen.AddFiles(t, "a file", p.command.Dir)
	w.seen.AddFiles(t, "a file", w.Path("archive"))
	w.seen.Add("the database", postgres.Text(t, database))
	w.misconfigure()
	w.seen.Add("a command's output", w.Said.String())
	w.check(t)
}

// addTraces adds the spans so far, and reports whether there are any.
func (w *markedWorld) addTraces() bool {
	w.traces.mu.Lock()
	defer w.traces.mu.Unlock()
	for _, span := range w.traces.spans {
		w.seen.Add("a trace", protojson.Format(span))
	}
	return len(w.traces.spans) > 0
}

// check reports the secrets that were found.
func (w *markedWorld) check(t *testing.T) {
	places := []string{"a trace", "the log", "the database", "a file", "a command line", "a profile", "the metrics", "an answer",
		"the Redis of rows", "a dump of Redis"}
	for _, place := range places {
		if len(w.seen[place]) == 0 {
			t.Errorf("nothing was seen of %s", place)
		}
	}
	for _, leak := range slices.Sorted(slices.Values(w.seen.Leaks(w.secrets))) {
		t.Error(leak)
	}
	if kinds := len(w.secrets); kinds < 20 {
		t.Errorf("only %d secrets: %v", kinds, slices.Sorted(maps.Keys(w.secrets)))
	}
}

func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

// useAPI sends good requests, and those that have a secret in the wrong place.
func (w *markedWorld) useAPI(base, key, revoked string) {
	unknown, _ := policy.NewKey("sara")
	w.mark("an unknown key", unknown)
	property := base + "/v1/properties/shop"
	for _, path := range []string{base + "/v1/me", base + "/v1/properties", property, property + "/queries", property + "/movers/queries",
		property + "/indexing", property + "/summary"} {
		if a := w.get("an answer", path, bearer(key)); a.Status != http.StatusOK {
			w.T.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	for _, wrong := range []string{unknown, revoked, w.mark("a wrong key", "sara_live_MARKOFAWRONGKEY"), w.mark("half a key", key[:40])} {
		if a := w.get("an answer", base+"/v1/me", bearer(wrong)); a.Status != http.StatusUnauthorized {
			w.T.Errorf("a wrong key: %d %s", a.Status, a.Body)
		}
	}
	for _, header := range []http.Header{{"Authorization": {key}}, {"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+key))}},
		{"X-Api-Key": {key}}, {"Cookie": {"key=" + key}}} {
		w.get("an answer", base+"/v1/me", header)
	}
	good := bearer(key)
	for _, name := range []string{"User-Agent", "Referer", "X-Request-Id", "X-Forwarded-For", "X-Real-Ip", "Traceparent", "Tracestate",
		"Baggage", "If-None-Match", "Cache-Control"} {
		good.Set(name, key)
	}
	w.get("an answer", property+"/queries?limit=5", good)
	for _, path := range []string{"/v1/" + key, "/" + key + "/me", "/v1/properties/" + key, "/v1/properties/" + key + "/queries",
		"/v1/properties/shop/" + key, "/v1/properties/shop/queries?api_key=" + key, "/v1/properties/shop/queries?" + key + "=1",
		"/v1/properties/shop/queries?limit=" + key, "/v1/properties/shop/queries?start_date=" + key,
		"/v1/properties/shop/queries?filters=" + key, "/v1/properties/shop/queries?order_by=" + key} {
		w.get("an answer", base+path, nil)
		clitest.Get(base+path, key) // its answer may quote the key, to its owner
	}
}
