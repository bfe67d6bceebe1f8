package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/demo"
)

// testCollectKilled kills a collector at several points, starts two at once, and compares the archive with that of an
// uninterrupted run.
func testCollectKilled(t *testing.T, binary string) {
	simulator := clitest.SimulateWatched(t)
	c := clitest.NewCollectCLI(t, sara, simulator.People)
	weeks := clitest.SettledWeeks(2)
	collect := func(folder string) *process {
		return start(t, binary, append(c.Env, "SARA_ARCHIVE_URL="+c.Path(folder)), append([]string{"collect"}, weeks...)...)
	}
	ended := func(p *process) {
		t.Helper()
		if _, err := p.wait(); err != nil {
			t.Errorf("collect: %v\n%s", err, p.stderr)
		}
	}
	ended(collect("whole"))
	want := clitest.ArchivedObjects(t, c.Path("whole"))

	for _, after := range []int{3, 45, 26, 60} {
		started := make(chan *process, 1)
		simulator.AfterQueries(after, func() { (<-started).signal(os.Kill) })
		p := collect("killed")
		started <- p
		if _, err := p.wait(); err == nil {
			t.Errorf("it ended before %d queries", after)
		}
	}
	simulator.AfterQueries(0, nil)
	ended(collect("killed"))
	clitest.WantSameObjects(t, clitest.ArchivedObjects(t, c.Path("killed")), want)

	one, other := collect("shared"), collect("shared")
	ended(one)
	ended(other)
	clitest.WantSameObjects(t, clitest.ArchivedObjects(t, c.Path("shared")), want)
}

// testServeCollects starts two replicas that collect.
func testServeCollects(t *testing.T, binary string) {
	simulator := clitest.SimulateWatched(t)
	c := clitest.New(t, sara).Against(simulator.People)
	c.Env = append(c.Env, "SARA_COLLECT=on", "SARA_COLLECT_RATE=100000")
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	c.OK("connection", "add", "Web", "--name", "mine", "--credentials", c.Path(demo.PortfolioConnection+".json"))
	id := c.ID(c.Object(clitest.PropertyMembers, "property", "add", "mine", demo.SiteFresh))
	one, _, _ := serving(t, binary, c.Env)
	other, _, _ := serving(t, binary, c.Env)
	collected := make(chan struct{}, 2)
	for _, p := range []*process{one, other} {
		p.stderr.When("msg=collected ", func() { collected <- struct{}{} })
	}
	select {
	case <-collected:
	case <-time.After(clitest.Hurry): // the checks below report what is missing
	}
	ctx := context.Background()
	store, err := sqlstore.Open(ctx, sqlstore.Config{URL: "sqlite:" + c.Path("sara.db")})
	if err != nil {
		t.Fatal(err)
	}
	state, err := store.ArchiveState(ctx, id)
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
