package command

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/demo"
	"sara/cmd/sara/internal/jobs"
	"sara/policy"
	"sara/policy/keyring"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

const collectMembers = "id gsc_property days first_archived_date last_archived_date complete note"

func TestCollect(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	simulator := clitest.SimulateWatched(t)
	c := clitest.NewCollectCLI(t, sara, simulator.People)
	weeks := clitest.SettledWeeks(3)
	run := func(args ...string) []string { return slices.Concat([]string{"collect"}, args, weeks) }
	for _, r := range c.Array(collectMembers, run("--property", "fresh")...) {
		if r["gsc_property"] != demo.SiteFresh || r["days"] != 21.0 || r["complete"] != true || r["first_archived_date"] != weeks[1] ||
			r["last_archived_date"] != weeks[3] || r["note"] != "" {
			t.Errorf("collected %v", r)
		}
	}
	if list := c.Array(collectMembers, run()...); len(list) != 3 || c.ID(list[0]) == c.ID(list[1]) {
		t.Errorf("collected %v", list)
	}
	for _, want := range []string{"3 properties to collect: 42 days", "3 of 3 properties, 42 of 42 days"} {
		if !strings.Contains(c.LastErrs, want) {
			t.Errorf("the progress lacks %q:\n%s", want, c.LastErrs)
		}
	}
	before, called := clitest.ArchivedObjects(t, c.Path("archive")), simulator.Calls().SearchAnalytics
	if rows := columns(c.OK(run()...)); len(rows) != 4 || rows[1][1] != "0" {
		t.Errorf("table: %v", rows)
	}
	if again := simulator.Calls().SearchAnalytics - called; again != 0 {
		t.Errorf("%d calls for days that are archived", again)
	}
	clitest.WantSameObjects(t, clitest.ArchivedObjects(t, c.Path("archive")), before)

	// The archive has what Search Console has.
	export := c.OK("archive", "export", "shop", "--from", weeks[1], "--to", weeks[1], "--format", "csv")
	if n := strings.Count(export, weeks[1]+",query,"); n != 100 {
		t.Errorf("%d queries of a day are archived, want 100:\n%.300s", n, export)
	}

	c.Fails(ExitError, []string{"collect", "--property", "nothing"}, "sara property list")
	c.Fails(ExitUsage, []string{"collect", "--since", "2026-02-30"}, "--since")
	c.Fails(ExitUsage, []string{"collect", "--since", weeks[3], "--until", weeks[1]}, "is after --until")
	c.Fails(ExitUsage, []string{"collect", "--collect-rate", "0"}, "SARA_COLLECT_RATE")
	c.Fails(ExitUsage, []string{"serve", "--collect", "sometimes"}, "SARA_COLLECT", "neither on nor off")
	c.KeptSecrets(simulator.People)
}

func TestCollectReportsIncompleteProperties(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	simulator := clitest.SimulateWatched(t)
	c := clitest.NewCollectCLI(t, sara, simulator.People)
	c.OK("connection", "add", "Web", "--name", "dead", "--no-verify", "--credentials", c.Path(demo.FormerConnection+".json"))
	c.OK("property", "add", "dead", demo.SiteDisconnected, "--slug", "dead", "--no-verify")
	status, stdout, stderr := c.Run(append([]string{"collect", "--json"}, clitest.SettledWeeks(1)...)...)
	if status != ExitError || !strings.Contains(stderr, "1 of 4 properties is incomplete") ||
		strings.Count(stdout, `"complete":true`) != 3 || !strings.Contains(stdout, "invalid_grant") {
		t.Errorf("status %d\n%s\n%s", status, stdout, stderr)
	}
	// The service and the lists show it, too.
	for _, p := range c.Array(clitest.PropertyMembers, "property", "list") {
		if dead := p["slug"] == "dead"; p["healthy"] == dead {
			t.Errorf("property %v is healthy: %v", p["slug"], p["healthy"])
		}
	}
	c.KeptSecrets(simulator.People)
}

func TestCollectorErrorKindsAndHealth(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	simulator := clitest.SimulateWatched(t)
	c := clitest.NewCollectCLI(t, sara, simulator.People)
	ctx := context.Background()
	keys, err := keyring.New([]byte("sara-tests-need-32-bytes-of-key!"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlstore.Open(ctx, sqlstore.Config{URL: "sqlite:" + c.Path("sara.db"), Keyring: keys})
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
				gateway, err := upstream.New(upstream.Config{BaseURL: simulator.People.URL, TokenURL: simulator.People.URL + "/token", Connections: store,
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
				if now, exists, err := source.CurrentCollectable(ctx, properties[0].PropertyID); err != nil || !exists || !reflect.DeepEqual(now, properties[0]) {
					t.Errorf("by its id: %+v, %t, %v; want %+v", now, exists, err, properties[0])
				}
				day := translate.NewDate(2026, 1, 1)
				_, err = gateway.Query(ctx, properties[0].Target, translate.DayQuery(properties[0].Site, translate.ByDevice, day, 1))
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
