package main

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/demo"
	"sara/cmd/sara/internal/jobs"
	"sara/policy"
	"sara/policy/keyring"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// watchedSimulator is a simulated Search Console that counts calls.
type watchedSimulator struct {
	*gscsim.Server
	people *demo.Users

	mu    sync.Mutex
	left  int    // queries until after
	after func() // nil: no step to wait for
}

// simulateWatched is simulate without quotas, which the tests would exceed.
func simulateWatched(t *testing.T) *watchedSimulator {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	t.Cleanup(server.Close)
	people, err := demo.NewUsers(time.Now(), "http://"+server.Listener.Addr().String(), sharedKey)
	if err != nil {
		t.Fatal(err)
	}
	config := people.Simulation(time.Now)
	config.Quotas.SearchPerMinute = -1
	w := &watchedSimulator{Server: gscsim.New(config), people: people}
	server.Config.Handler = w
	server.Start()
	return w
}

// afterQueries calls f at the nth query from now.
func (w *watchedSimulator) afterQueries(n int, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.after = n, f
}

func (w *watchedSimulator) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/searchAnalytics/query") {
		w.mu.Lock()
		w.left--
		if w.after != nil && w.left == 0 {
			w.after()
		}
		w.mu.Unlock()
	}
	w.Server.ServeHTTP(rw, r)
}

const collectMembers = "id gsc_property days first_archived_date last_archived_date complete note"

// newCollectCLI returns a CLI with the properties main, prefix and fresh.
func newCollectCLI(t *testing.T, people *demo.Users) *cli {
	t.Helper()
	c := newCLI(t).against(people)
	c.env = append(c.env, "SARA_COLLECT_RATE=100000")
	c.ok("account", "add", "Acme", "--plan", "pro")
	c.ok("workspace", "add", "Acme", "Web")
	c.withProperty()
	c.ok("connection", "add", "Web", "--name", "mine", "--credentials", c.path(demo.PortfolioConnection+".json"))
	c.ok("property", "add", "mine", demo.SitePrefix, "--slug", "prefix")
	c.ok("property", "add", "mine", demo.SiteFresh, "--slug", "fresh")
	return c
}

// settledWeeks returns the arguments for n weeks of final days. They mean the same days when midnight passes.
func settledWeeks(n int) []string {
	until := time.Now().UTC().AddDate(0, 0, -7)
	return []string{"--since", until.AddDate(0, 0, 1-7*n).Format(time.DateOnly), "--until", until.Format(time.DateOnly)}
}

func archivedObjects(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".parquet" {
			return err
		}
		data, err := os.ReadFile(path)
		found[path[len(folder):]] = string(data)
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("%d objects in %s: %v", len(found), folder, err)
	}
	return found
}

func wantSameObjects(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d objects, want %d", len(got), len(want))
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s has other bytes", name)
		}
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	simulator := simulateWatched(t)
	c := newCollectCLI(t, simulator.people)
	weeks := settledWeeks(3)
	run := func(args ...string) []string { return slices.Concat([]string{"collect"}, args, weeks) }
	for _, r := range c.array(collectMembers, run("--property", "fresh")...) {
		if r["gsc_property"] != demo.SiteFresh || r["days"] != 21.0 || r["complete"] != true || r["first_archived_date"] != weeks[1] ||
			r["last_archived_date"] != weeks[3] || r["note"] != "" {
			t.Errorf("collected %v", r)
		}
	}
	if list := c.array(collectMembers, run()...); len(list) != 3 || c.id(list[0]) == c.id(list[1]) {
		t.Errorf("collected %v", list)
	}
	for _, want := range []string{"3 properties to collect: 42 days", "3 of 3 properties, 42 of 42 days"} {
		if !strings.Contains(c.lastErrs, want) {
			t.Errorf("the progress lacks %q:\n%s", want, c.lastErrs)
		}
	}
	before, called := archivedObjects(t, c.path("archive")), simulator.Calls().SearchAnalytics
	if rows := columns(c.ok(run()...)); len(rows) != 4 || rows[1][1] != "0" {
		t.Errorf("table: %v", rows)
	}
	if again := simulator.Calls().SearchAnalytics - called; again != 0 {
		t.Errorf("%d calls for days that are archived", again)
	}
	wantSameObjects(t, archivedObjects(t, c.path("archive")), before)

	// The archive has what Search Console has.
	export := c.ok("archive", "export", "shop", "--from", weeks[1], "--to", weeks[1], "--format", "csv")
	if n := strings.Count(export, weeks[1]+",query,"); n != 100 {
		t.Errorf("%d queries of a day are archived, want 100:\n%.300s", n, export)
	}

	c.fails(exitError, []string{"collect", "--property", "nothing"}, "sara property list")
	c.fails(exitUsage, []string{"collect", "--since", "2026-02-30"}, "--since")
	c.fails(exitUsage, []string{"collect", "--since", weeks[3], "--until", weeks[1]}, "is after --until")
	c.fails(exitError, []string{"collect", "--collect-rate", "0"}, "SARA_COLLECT_RATE")
	c.fails(exitError, []string{"serve", "--collect", "sometimes"}, "SARA_COLLECT", "neither on nor off")
	c.keptSecrets(simulator.people)
}

func TestCollectReportsIncompleteProperties(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	simulator := simulateWatched(t)
	c := newCollectCLI(t, simulator.people)
	c.ok("connection", "add", "Web", "--name", "dead", "--no-verify", "--credentials", c.path(demo.FormerConnection+".json"))
	c.ok("property", "add", "dead", demo.SiteDisconnected, "--slug", "dead", "--no-verify")
	status, stdout, stderr := c.run(append([]string{"collect", "--json"}, settledWeeks(1)...)...)
	if status != exitError || !strings.Contains(stderr, "1 of 4 properties are incomplete") ||
		strings.Count(stdout, `"complete":true`) != 3 || !strings.Contains(stdout, "invalid_grant") {
		t.Errorf("status %d\n%s\n%s", status, stdout, stderr)
	}
	// The service and the lists show it, too.
	for _, p := range c.array(propertyMembers, "property", "list") {
		if dead := p["slug"] == "dead"; p["healthy"] == dead {
			t.Errorf("property %v is healthy: %v", p["slug"], p["healthy"])
		}
	}
	c.keptSecrets(simulator.people)
}

func TestCollectorErrorKindsAndHealth(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	simulator := simulateWatched(t)
	c := newCollectCLI(t, simulator.people)
	ctx := context.Background()
	keys, err := keyring.New([]byte("sara-tests-need-32-bytes-of-key!"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(ctx, sqlstore.Config{URL: "sqlite:" + c.path("sara.db"), Keyring: keys})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		faults   gscsim.Faults
		kind     upstream.Kind
		healthy  bool
		readable bool
	}{
		"load quota":     {gscsim.Faults{Reason: "quotaExceeded"}, upstream.Quota, true, true},
		"rate":           {gscsim.Faults{Reason: "rateLimitExceeded"}, upstream.Quota, true, true},
		"no access":      {gscsim.Faults{Reason: "forbidden"}, upstream.Forbidden, true, false},
		"no scope":       {gscsim.Faults{Reason: "insufficientPermissions"}, upstream.Misconfigured, false, true},
		"no API":         {gscsim.Faults{Reason: "accessNotConfigured"}, upstream.Misconfigured, false, true},
		"revoked":        {gscsim.Faults{RevokeTokens: true}, upstream.Revoked, false, true},
		"bad request":    {gscsim.Faults{Status: 400}, upstream.Rejected, true, true},
		"internal error": {gscsim.Faults{Status: 500}, upstream.Unavailable, true, true},
		"dropped":        {gscsim.Faults{DropRate: 1}, upstream.Unavailable, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			// A new gateway each time: it remembers credentials that the token endpoint refused.
			query := func() error {
				gateway, err := upstream.New(upstream.Config{BaseURL: simulator.people.URL, TokenURL: simulator.people.URL + "/token", Connections: store,
					Backoff: func(int) time.Duration { return time.Millisecond }})
				if err != nil {
					t.Fatal(err)
				}
				defer gateway.Close()
				source := &jobs.Source{Gateway: gateway, Store: store, Plans: policy.DefaultPlans()}
				properties, err := source.Collectable(ctx)
				if err != nil {
					t.Fatal(err)
				}
				day := translate.NewDate(2026, 1, 1)
				_, err = gateway.Query(ctx, properties[0].Target, translate.DayQuery(properties[0].Site, translate.ByDevice, day, 1), nil)
				return err
			}
			wantHealth := func(healthy, readable bool) {
				t.Helper()
				properties, err := store.Properties(ctx)
				if err != nil || properties[0].Connection.Healthy != healthy || (properties[0].AccessNote == "") != readable {
					t.Errorf("%v, %+v, want healthy %t, readable %t", err, properties[0], healthy, readable)
				}
			}
			if err := simulator.SetFaults(test.faults); err != nil {
				t.Fatal(err)
			}
			err = query()
			if schedule.KindOf(err) != test.kind || (schedule.CooldownOf(err) > 0) != (test.kind == upstream.Quota) {
				t.Errorf("got %v, want kind %s", err, test.kind)
			}
			wantHealth(test.healthy, test.readable)
			if err := simulator.SetFaults(gscsim.Faults{}); err != nil {
				t.Fatal(err)
			}
			if err := query(); err != nil {
				t.Errorf("after the faults: %v", err)
			}
			wantHealth(true, true)
		})
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// testCollectKilled kills a collector at several points, starts two at once, and compares the archive with that of an
// uninterrupted run.
func testCollectKilled(t *testing.T, binary string) {
	simulator := simulateWatched(t)
	c := newCollectCLI(t, simulator.people)
	weeks := settledWeeks(2)
	collect := func(folder string) *process {
		return start(t, binary, append(c.env, "SARA_ARCHIVE_URL="+c.path(folder)), append([]string{"collect"}, weeks...)...)
	}
	ended := func(p *process) {
		t.Helper()
		if _, err := p.wait(); err != nil {
			t.Errorf("collect: %v\n%s", err, p.stderr)
		}
	}
	ended(collect("whole"))
	want := archivedObjects(t, c.path("whole"))

	for _, after := range []int{3, 45, 26, 60} {
		started := make(chan *process, 1)
		simulator.afterQueries(after, func() { (<-started).signal(os.Kill) })
		p := collect("killed")
		started <- p
		if _, err := p.wait(); err == nil {
			t.Errorf("it ended before %d queries", after)
		}
	}
	simulator.afterQueries(0, nil)
	ended(collect("killed"))
	wantSameObjects(t, archivedObjects(t, c.path("killed")), want)

	one, other := collect("shared"), collect("shared")
	ended(one)
	ended(other)
	wantSameObjects(t, archivedObjects(t, c.path("shared")), want)
}

// testServeCollects starts two replicas that collect.
func testServeCollects(t *testing.T, binary string) {
	simulator := simulateWatched(t)
	c := newCLI(t).against(simulator.people)
	c.env = append(c.env, "SARA_COLLECT=on", "SARA_COLLECT_RATE=100000")
	c.ok("account", "add", "Acme", "--plan", "pro")
	c.ok("workspace", "add", "Acme", "Web")
	c.ok("connection", "add", "Web", "--name", "mine", "--credentials", c.path(demo.PortfolioConnection+".json"))
	id := c.id(c.object(propertyMembers, "property", "add", "mine", demo.SiteFresh))
	one, _, _ := serving(t, binary, c.env)
	other, _, _ := serving(t, binary, c.env)
	collected := make(chan struct{}, 2)
	for _, p := range []*process{one, other} {
		p.stderr.when("msg=collected ", func() { collected <- struct{}{} })
	}
	select {
	case <-collected:
	case <-time.After(hurry): // the checks below report what is missing
	}
	ctx := context.Background()
	store, err := sqlstore.Open(ctx, sqlstore.Config{URL: "sqlite:" + c.path("sara.db")})
	if err != nil {
		t.Fatal(err)
	}
	state, _, err := store.ArchiveState(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	one.stopped()
	other.stopped()
	if state.CollectedAt == nil || state.First == nil || state.Last == nil || *state.Last-*state.First < 400 || state.Failures != 0 {
		t.Errorf("the stored state is %+v\n%s\n%s", state, one.stderr, other.stderr)
	}
	if n := strings.Count(one.stderr.String()+other.stderr.String(), "msg=collecting "); n != 1 {
		t.Errorf("it was collected %d times\n%s\n%s", n, one.stderr, other.stderr)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
