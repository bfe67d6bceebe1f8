package command

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/service"
	"sara/cmd/sara/internal/settings"
	"sara/cmd/sara/internal/status"
	"sara/policy"
	"sara/policy/redistest"
	"sara/proxy"
	"sara/translate"
)

// fakeReplica is an admin endpoint that answers with a status.
func fakeReplica(t *testing.T, code int, status proxy.Status) (base string) {
	t.Helper()
	status.Version, status.StartedAt = "v1.2.3", time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(status) // a prober that hung up
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestHealth(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	ready := fakeReplica(t, 200, proxy.Status{State: proxy.StateReady})
	if said := c.OK("health", "--url", ready+"/"); said != "ready\n" {
		t.Errorf("a server that is ready: %q", said)
	}
	said := c.OK("health", "--url", fakeReplica(t, 200, proxy.Status{State: proxy.StateDegraded, Reason: "Redis is away"}))
	if said != "degraded: Redis is away\n" {
		t.Errorf("a server that is degraded: %q", said)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(ready, "http://"), ":")
	for _, address := range []string{":" + port, "0.0.0.0:" + port, "127.0.0.1:" + port} {
		c.Env = []string{"SARA_ADMIN_LISTEN=" + address} // and nothing else
		c.OK("health")
	}
	c.Fails(ExitError, []string{"health", "--url", fakeReplica(t, 503, proxy.Status{State: proxy.StateDraining, Reason: "SIGTERM"})},
		"is draining: SIGTERM")
	degraded := fakeReplica(t, 200, proxy.Status{State: proxy.StateDegraded, Reason: "Redis is away", Version: "v1.2.3"})
	if r := c.Object("state reason version started_at", "health", "--url", degraded); r["state"] != "degraded" ||
		r["reason"] != "Redis is away" || r["version"] != "v1.2.3" {
		t.Errorf("it prints %v", r)
	}
	unready := fakeReplica(t, 503, proxy.Status{State: proxy.StateUnready, Reason: "no key is known"})
	if code, said, errs := c.Run("health", "--json", "--url", unready); code != ExitError || !strings.Contains(said, `"state":"unready"`) ||
		!strings.Contains(errs, "is unready: no key is known") {
		t.Errorf("a server that is not ready: status %d, %q, %q", code, said, errs)
	}
	c.Fails(ExitError, []string{"health", "--url", "http://127.0.0.1:1"}, "http://127.0.0.1:1 does not answer: ", "connection refused")
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	c.Fails(ExitError, []string{"health", "--url", other.URL}, "is not the admin endpoint of a server: its /readyz answers 404")
	c.Fails(ExitUsage, []string{"health", "--url", "127.0.0.1:9090"}, "is not an absolute http or https URL, such as http://127.0.0.1:9090")
	for _, args := range [][]string{{"health", "--url"}, {"status", "--replica"}} {
		c.Fails(ExitUsage, append(args, "http://ann:hunter2@127.0.0.1:1"), `"http://ann:xxxxx@127.0.0.1:1" has more than a scheme, a host and a path`)
	}
	if strings.Contains(c.Said.String(), "hunter2") {
		t.Error("a password was quoted")
	}
	c.Fails(ExitUsage, []string{"health", "--admin-listen", "9090"}, `SARA_ADMIN_LISTEN (--admin-listen): "9090" is not of the form HOST:PORT`)
}

// fakeMetrics is a ready replica with the metrics of a registry.
func fakeMetrics(t *testing.T, registry *prometheus.Registry) (base string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(proxy.Status{State: proxy.StateReady}) // a prober that hung up
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// fakeCircuits is a ready replica whose metrics count open circuit breakers.
func fakeCircuits(t *testing.T, open map[string]int) (base string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	gauges := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sara_upstream_breaker_open"}, []string{"host_role"})
	for role, n := range open {
		gauges.WithLabelValues(role).Set(float64(n))
	}
	registry.MustRegister(gauges)
	return fakeMetrics(t, registry)
}

// Open circuit breakers are shown by replica and level. Those of single properties and connections are no reason to worry.
func TestStatusShowsOpenCircuits(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	seedStatus(c, nil)
	narrow := fakeCircuits(t, map[string]int{"property": 12, "connection": 1, "search_console": 0, "token": 0})
	code, r := statusOf(c, "--replica", narrow)
	if code != ExitOK || !r.OK || r.Replicas[0].Circuits["property"] != 12 || r.Replicas[0].Circuits["connection"] != 1 ||
		len(r.Replicas[0].Circuits) != 4 {
		t.Errorf("status %d, %v, circuits %v", code, r.Attention, r.Replicas[0].Circuits)
	}
	wide := fakeCircuits(t, map[string]int{"search_console": 1, "token": 2, "property": 0})
	code, r = statusOf(c, "--replica", wide, "--replica", fakeReplica(t, 200, proxy.Status{State: proxy.StateReady}))
	if want := []string{"the circuit breaker of search_console is open", "the circuit breaker of token is open"}; code != ExitError ||
		len(r.Attention) != 2 || !strings.HasSuffix(r.Attention[0], want[0]) || !strings.HasSuffix(r.Attention[1], want[1]) {
		t.Errorf("status %d, %v", code, r.Attention)
	}
	if r.Replicas[1].Circuits != nil {
		t.Errorf("circuits of a replica without metrics: %v", r.Replicas[1].Circuits)
	}
	for base, want := range map[string]string{narrow: "connection: 1, property: 12", wide: "search_console: 1, token: 2",
		fakeCircuits(t, map[string]int{"token": 0}): "none"} {
		if _, text, _ := c.Run("status", "--replica", base); !strings.Contains(text, want) || !strings.Contains(text, "OPEN CIRCUITS") {
			t.Errorf("the table does not show %q: %s", want, text)
		}
	}
}

// deploymentOf is what status looks at for the command lines, without a replica.
func deploymentOf(c *clitest.CLI) status.Deployment {
	return status.Deployment{Store: settings.Store{DatabaseURL: settings.SQLite(c.Path("sara.db"))},
		Archive: settings.Archive{ArchiveURL: settings.LocalArchive(c.Path("archive"))}, Plans: policy.DefaultPlans()}
}

// statusOf runs the command with --json and returns its exit status and report.
func statusOf(c *clitest.CLI, args ...string) (int, status.Report) {
	c.T.Helper()
	code, stdout, stderr := c.Run(append([]string{"status", "--json"}, args...)...)
	return code, statusIn(c.T, stdout, stderr)
}

// statusIn returns the report that the command has printed.
func statusIn(t *testing.T, stdout, stderr string) (report status.Report) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&report); err != nil {
		t.Fatalf("status prints no JSON object (%v): %q\n%s", err, stdout, stderr)
	}
	return report
}

// seedStatus makes 23 properties, all up to date but for those of their number of days; -1 for one that never was.
func seedStatus(c *clitest.CLI, days map[int]int) *sqlstore.Store {
	c.T.Helper()
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	credentials := c.Write("mine.json", `{"type":"authorized_user","client_id":"id","client_secret":"hunter2","refresh_token":"hunter2"}`)
	c.OK("connection", "add", "Web", "--name", "mine", "--no-verify", "--credentials", credentials)
	store := c.Open(time.Now)
	if err := os.Mkdir(c.Path("archive"), 0o700); err != nil {
		c.T.Fatal(err)
	}
	now := time.Now()
	anchor := steadyAnchor(c, now)
	for i := range 23 {
		p, err := store.AddProperty(c.T.Context(), sqlstore.PropertySpec{Connection: "mine", Site: fmt.Sprintf("sc-domain:s%02d.example", i)})
		if err != nil {
			c.T.Fatal(err)
		}
		late, isLate := days[i]
		last := anchor - translate.Date(late)
		state := sqlstore.ArchiveState{PropertyID: p.ID, First: &last, Last: &last}
		switch {
		case late < 0:
			continue
		case isLate:
			state.Failures, state.Note = 3, "it did not answer"
		default:
			state.CollectedAt = &now
		}
		if err := store.SaveArchiveState(c.T.Context(), state); err != nil {
			c.T.Fatal(err)
		}
	}
	return store
}

// steadyAnchor returns the anchor of a test that counts days by the clock of this machine, and skips it in the minutes around midnight in
// Los Angeles: the anchor would move during the test, or for a part of it that is a minute ago.
func steadyAnchor(c *clitest.CLI, now time.Time) translate.Date {
	c.T.Helper()
	calendar, err := translate.NewCalendar()
	if err != nil {
		c.T.Fatal(err)
	}
	const around = 3 * time.Minute
	anchor := calendar.Anchor(now)
	if calendar.Anchor(now.Add(-around)) != anchor || calendar.Anchor(now.Add(around)) != anchor {
		c.T.Skip("it is midnight in Los Angeles")
	}
	return anchor
}

func TestStatusOfFailedRuns(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	seedStatus(c, map[int]int{3: 1, 4: -1, 5: 0}) // not yet today, made today, and only its last days by hand: no reason to worry
	replica := fakeReplica(t, 200, proxy.Status{State: proxy.StateReady})
	code, r := statusOf(c, "--replica", strings.Replace(replica, "127.0.0.1", "localhost", 1))
	if code != ExitError || len(r.Attention) != 1 || !strings.HasPrefix(r.Attention[0], "collecting failed in the last run for 2 of 23 properties") {
		t.Errorf("status %d, %v", code, r.Attention)
	}
	if len(r.Replicas) != 1 || r.Replicas[0].State != "ready" || *r.Replicas[0].Version != "v1.2.3" ||
		*r.Replicas[0].StartedAt != "2026-03-01T12:00:00Z" || console.Cell(r.Replicas[0].IP) != "127.0.0.1" {
		t.Errorf("replicas: %+v", r.Replicas)
	}
	if r.Redis.State != "none" || r.Database.Kind != "SQLite" || r.Database.Schema != r.Database.Known || r.Budgets.Source != "database" ||
		len(r.Budgets.Unknown) != 1 {
		t.Errorf("Redis %+v, database %+v, budgets %+v", r.Redis, r.Database, r.Budgets)
	}
	if want := (status.ArchiveCounts{Properties: 23, Complete: 20, Failing: 2}); r.Archive.Counts != want || len(r.Archive.Properties) != 20 ||
		r.Archive.Properties[0].State != "never" || *r.Archive.Properties[1].LagDays != 1 {
		t.Errorf("archive: %+v of %+v", r.Archive.Counts, r.Archive.Properties[:2])
	}
	incomplete := slices.IndexFunc(r.Archive.Properties, func(l status.ArchiveLag) bool { return l.State == "incomplete" })
	if incomplete < 0 || r.Archive.Properties[incomplete].GSCProperty != "sc-domain:s05.example" {
		t.Errorf("the property of which only the last days are archived is not distinguished from the others: %+v", r.Archive.Properties)
	}
	if _, table, _ := c.Run("status", "--replica", replica); !strings.Contains(table, "The worst 20 of 23 are shown.") ||
		!strings.Contains(table, "\nNeeds attention:\n- collecting failed") || strings.Count(table, "sc-domain:") != 2*20 {
		t.Errorf("for people:\n%s", table)
	}
}

func TestStatusListsWhatNeedsAttention(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	store := seedStatus(c, map[int]int{7: 4, 9: 30})
	account, err := store.Account(t.Context(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	connection, err := store.Connection(t.Context(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.SetConnectionHealth(t.Context(), connection.ID, 1, "it was revoked"); err != nil {
		t.Fatal(err)
	}
	day := time.Now().Unix() / 86400
	if err := store.SaveUsage(t.Context(), []policy.UsageCount{{AccountID: account.ID, Day: day, InDay: 10, Calls: 201}}); err != nil {
		t.Fatal(err)
	}
	degraded := fakeReplica(t, 200, proxy.Status{State: proxy.StateDegraded, Reason: "Redis is away"})
	code, r := statusOf(c, "--replica", degraded, "--replica", "http://127.0.0.1:1", "--replica", "http://nowhere.invalid:9090")
	states := console.Each(r.Replicas, func(s status.Replica) string { return s.State })
	if code != ExitError || r.OK || !slices.Equal(states, []string{"degraded", "unreachable", "unreachable"}) {
		t.Errorf("status %d, replicas %v", code, states)
	}
	said := strings.Join(r.Attention, "\n")
	for _, want := range []string{degraded + " is degraded: Redis is away", "http://127.0.0.1:1 is unreachable: ",
		"nowhere.invalid:9090 is unreachable: ", "1 of 1 connections fails", "the archive of 2 of 23 properties is 2 days or more behind"} {
		if !strings.Contains(said, want) {
			t.Errorf("the output lacks %q:\n%s", want, said)
		}
	}
	worst := r.Archive.Properties[0]
	if worst.GSCProperty != "sc-domain:s09.example" || *worst.LagDays != 30 || worst.Failures != 3 || worst.Note != "it did not answer" {
		t.Errorf("the worst is %+v", worst)
	}
	if len(r.Outages.Unhealthy) != 1 || r.Outages.Unhealthy[0].Note != "it was revoked" || r.Outages.Unhealthy[0].Since == nil ||
		r.Outages.Unhealthy[0].Workspace != "Web" || r.Outages.Unhealthy[0].Account != "Acme" {
		t.Errorf("connections: %+v", r.Outages)
	}
	if len(r.Budgets.Accounts) != 1 || r.Budgets.Accounts[0].UsedPercent != 80 ||
		r.Budgets.Accounts[0].Ceiling != "search_console_calls_per_day" || r.Budgets.Accounts[0].SearchConsoleCallsPerDay != 250 {
		t.Errorf("budgets: %+v", r.Budgets)
	}
	if _, table, _ := c.Run("status", "--replica", degraded); !strings.Contains(table, "Needs attention:\n- replica ") ||
		!strings.Contains(table, "201 of 250 (80 %)") {
		t.Errorf("for people:\n%s", table)
	}
	if strings.Contains(c.Said.String(), "hunter2") {
		t.Error("a secret was printed")
	}
}

func TestStatusListsHourThatIsNearlyUsedUp(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("account", "add", "Idle", "--plan", "pro")
	now := time.Date(2026, time.March, 1, 12, 30, 0, 0, time.UTC)
	store := c.Open(func() time.Time { return now })
	counts := make([]policy.UsageCount, 2)
	for i, name := range []string{"Acme", "Idle"} {
		account, err := store.Account(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		hour := now.Unix()/3600 - int64(i) // that of the second is over
		counts[i] = policy.UsageCount{AccountID: account.ID, Hour: hour, Day: hour / 24, InHour: 250, InDay: 250}
	}
	if err := store.SaveUsage(t.Context(), counts); err != nil {
		t.Fatal(err)
	}
	report, err := status.Look(t.Context(), deploymentOf(c), now)
	if err != nil {
		t.Fatal(err)
	}
	if a := report.Budgets.Accounts; len(a) != 1 || a[0].Account != "Acme" || a[0].Ceiling != "requests_per_hour" ||
		a[0].UsedPercent != 100 || a[0].RequestsPerHour != 250 {
		t.Errorf("accounts near an end: %+v (%v)", a, console.Cell(report.Budgets.Problem))
	}
	var text strings.Builder
	if err := report.Print(&text); err != nil || !strings.Contains(text.String(), "requests this hour  250 of 250 (100 %)") ||
		strings.Contains(text.String(), "requests today") {
		t.Errorf("%v:\n%s", err, text.String())
	}
}

// It runs alone: Redis counts as away if a busy machine delays its answer.
func TestStatusReadsSharedCountsWithoutCharging(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts Redis")
	}
	c := clitest.New(t, sara)
	store := seedStatus(c, nil)
	account, err := store.Account(t.Context(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	property, err := store.Property(t.Context(), "sc-domain:s05.example")
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Single(t)
	c.Env = append(c.Env, "SARA_REDIS_URL="+server.URL())
	log := service.OpenLogs(c.Said, settings.Log{LogLevel: settings.Level{Level: slog.LevelError}})
	client := server.Client()
	shared := policy.NewRedisBudget(policy.RedisBudgetConfig{Client: client, Replicas: 1, Now: time.Now, Log: log.Logger,
		Registry: prometheus.NewRegistry()})
	defer shared.Close()
	plan := policy.Plan{SearchConsoleCallsPerDay: 250, LiveCallsPerMinutePerProperty: 225}
	if refusal := shared.ChargeLiveCalls(account.ID, property.ID, 225, plan); refusal != nil {
		t.Fatalf("%+v", refusal)
	}
	replica := fakeReplica(t, 200, proxy.Status{State: proxy.StateReady})
	for range 2 {
		code, r := statusOf(c, "--replica", replica)
		if code != ExitOK || r.Redis.State != "ok" || console.Cell(r.Redis.Mode) != "standalone" || r.Redis.Version == nil ||
			*r.Redis.MemoryBytes <= 0 || r.Redis.Nodes != 1 {
			t.Errorf("status %d, %v, Redis %+v", code, r.Attention, r.Redis)
		}
		if b := r.Budgets; b.Source != "redis" || len(b.Accounts) != 1 || b.Accounts[0].SearchConsoleCallsToday != 225 || b.Accounts[0].UsedPercent != 90 ||
			len(b.Live) != 1 || b.Live[0].GSCProperty != property.Site || len(b.Unknown) != 0 {
			t.Errorf("budgets: %+v", b)
		}
	}
	server.Kill()
	code, r := statusOf(c, "--replica", replica)
	if code != ExitError || r.Redis.State != "unreachable" || r.Budgets.Problem == nil || r.Archive.Problem != nil || r.Archive.Counts.Properties != 23 {
		t.Errorf("without Redis: status %d, %+v, %+v", code, r.Redis, r.Budgets)
	}
}

func TestStatusCreatesNoFiles(t *testing.T) {
	t.Parallel()
	c := clitest.NewFresh(t, sara)
	code, r := statusOf(c, "--replica", "http://127.0.0.1:1")
	if code != ExitError || r.Database.Reachable || !strings.Contains(console.Cell(r.Database.Problem), "there is no database at") {
		t.Errorf("status %d, database %+v", code, r.Database)
	}
	for _, problem := range []*string{r.Archive.Problem, r.Indexing.Problem, r.Outages.Problem, r.Budgets.Problem} {
		if problem == nil {
			t.Error("a part does not report that it could not be read")
		}
	}
	if made, err := filepath.Glob(c.Path("*")); err != nil || len(made) > 0 {
		t.Errorf("status creates %v (%v)", made, err)
	}
	c.Fails(ExitUsage, []string{"status", "--plans-file", "/nowhere", "--admin-listen", "x"}, "SARA_PLANS_FILE (--plans-file): ",
		"SARA_ADMIN_LISTEN (--admin-listen): ")
}

func TestStatusPrintsEqualNotesOnce(t *testing.T) {
	t.Parallel()
	const note = "the upstream refuses the token"
	r := status.Report{OK: true}
	for _, p := range []string{"a", "b", "c"} {
		r.Archive.Properties = append(r.Archive.Properties, status.ArchiveLag{GSCProperty: "sc-domain:" + p + ".example", ID: p, Note: note})
	}
	r.Archive.Properties = append(r.Archive.Properties, status.ArchiveLag{GSCProperty: "sc-domain:d.example", ID: "d", Note: "another reason"})
	var text strings.Builder
	if err := r.Print(&text); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), note); n != 1 || strings.Count(text.String(), " [1]\n") != 3 ||
		!strings.Contains(text.String(), "\n[1] "+note+"\n") || !strings.Contains(text.String(), "another reason\n") ||
		!strings.HasSuffix(text.String(), "\nAll is well.\n") {
		t.Errorf("the note is printed %d times:\n%s", n, text.String())
	}
}
