package command

import (
	"bytes"
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/demo"
)

// TestJobsWithoutTheSecretKeyStopAtOnce is about the key that is missing, and about another one: every call would fail.
func TestJobsWithoutTheSecretKeyStopAtOnce(t *testing.T) {
	t.Parallel()
	people, simulator := clitest.Simulate(t)
	c := clitest.NewCollectCLI(t, sara, people)
	called := simulator.Calls()
	for _, key := range []string{"", "b3RoZXItdGVzdHMtbmVlZC0zMi1ieXRlcy1vZi1rZXk="} {
		for _, job := range []string{"collect", "inspect"} {
			_, _, stderr := c.With("SARA_SECRET_KEY=" + key).Run(job)
			if strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "openssl") {
				t.Errorf("%s with the key %q prints more than one line, or the advice to make a new key:\n%s", job, key, stderr)
			}
			c.With("SARA_SECRET_KEY="+key).Fails(ExitError, []string{job}, "SARA_SECRET_KEY: connection ")
		}
	}
	if simulator.Calls() != called {
		t.Errorf("calls: %+v, before %+v", simulator.Calls(), called)
	}
}

// TestConnectionUpdateListsTheSitesItWouldLose replaces the credentials of a connection by those of another account.
func TestConnectionUpdateListsTheSitesItWouldLose(t *testing.T) {
	t.Parallel()
	people, _ := clitest.Simulate(t)
	c := clitest.NewCollectCLI(t, sara, people)
	update := []string{"connection", "update", "mine", "--credentials", c.Path(demo.StrangerConnection + ".json")}
	c.Fails(ExitError, update, "nothing was changed", "do not reach 2 of 2 properties", demo.SitePrefix, demo.SiteFresh, "--force")
	for _, connection := range c.Array(connectionMembers, "connection", "list") {
		if connection["revision"] != 1.0 {
			t.Errorf("it was changed: %v", connection)
		}
	}
	if same := c.Object(connectionMembers, "connection", "update", "mine",
		"--credentials", c.Path(demo.PortfolioConnection+".json")); same["revision"] != 2.0 {
		t.Errorf("with a file of the same account: %v", same)
	}
	if forced := c.Object(connectionMembers, append(update, "--force")...); forced["revision"] != 3.0 {
		t.Errorf("forced: %v", forced)
	}
}

func TestUnknownSettingsAreRefused(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	for variable, want := range map[string]string{
		"SARA_LISTNE=x":             "SARA_LISTNE: there is no such setting; did you mean SARA_LISTEN?",
		"SARA_DATABSE_URL_FILE=x":   "did you mean SARA_DATABASE_URL_FILE?",
		"SARA_REDIS=redis://hunter": "SARA_REDIS: there is no such setting; did you mean SARA_REDIS_",
		"SARA_FROBNICATE=x":         "SARA_FROBNICATE: there is no such setting: remove it; sara serve --help lists the settings",
		"SARA_PORT=8080":            "SARA_PORT: there is no such setting",
	} {
		c.With(variable).Fails(ExitError, []string{"account", "list"}, want)
		c.With(variable).Fails(ExitError, []string{"serve", "--check"}, want)
		c.With(variable).OK("version")
	}
	for _, variable := range []string{
		"SARA_PORT=tcp://10.0.0.1:80", "SARA_SERVICE_HOST=10.0.0.1", "SARA_SERVICE_PORT=80", "SARA_SERVICE_PORT_API=80",
		"SARA_PORT_8080_TCP=tcp://10.0.0.1:8080", "SARA_PORT_8080_TCP_PROTO=tcp", "SARA_PORT_8080_TCP_ADDR=10.0.0.1",
		"SARA_ADMIN_SERVICE_HOST=10.0.0.2", "SARA_ADMIN_PORT=tcp://10.0.0.2:9090",
		"SARA_CACHE_BYTES=1GiB", // a setting of another command
		"SARA_FROBNICATE=",      // not set
	} {
		c.With(variable).OK("account", "list")
	}
	if strings.Contains(c.Said.String(), "hunter") {
		t.Error("the value of an unknown setting is printed, and may be a secret")
	}
}

// TestCommandsCreateNoDatabase is about a command in another folder than the server's.
func TestCommandsCreateNoDatabase(t *testing.T) {
	t.Parallel()
	c := clitest.NewFresh(t, sara)
	for _, command := range []string{"account list", "workspace add Acme Main", "property list", "collect", "inspect",
		"key list ann@example.com", "audit list"} {
		c.Fails(ExitError, strings.Fields(command), "SARA_DATABASE_URL: there is no database at "+c.Path("sara.db"), "sara account add")
	}
	c.Fails(ExitUsage, []string{"account", "add", "", "--plan", "pro"}, "<name>: it is empty")
	for _, name := range []string{" ", "Acme/Main"} {
		c.Fails(ExitUsage, []string{"account", "add", name, "--plan", "pro"}, "account name: ")
	}
	if made, err := os.ReadDir(c.Folder); err != nil || len(made) > 0 {
		t.Errorf("they created %v (%v)", made, err)
	}
	c.OK("account", "add", "Acme", "--plan", "pro")
	if want := "sara: created a new, empty database: " + c.Path("sara.db") + "\n"; !strings.Contains(c.LastErrs, want) {
		t.Errorf("it lacks %q:\n%s", want, c.LastErrs)
	}
	c.OK("account", "add", "Bob", "--plan", "pro")
	if strings.Contains(c.LastErrs, "created") {
		t.Errorf("it was created again:\n%s", c.LastErrs)
	}
}

func TestInterruptedCommandsHaveTheStatusOfTheSignal(t *testing.T) {
	t.Parallel()
	simulator := clitest.SimulateWatched(t)
	c := clitest.NewCollectCLI(t, sara, simulator.People)
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		ctx, cancel := context.WithCancelCause(t.Context())
		simulator.AfterQueries(3, func() { cancel(Interruption{signal}) })
		var out, errs bytes.Buffer
		status := sara(ctx, append([]string{"collect", "--property", "shop"}, clitest.SettledWeeks(2)...), c.Env, nil, &out, &errs)
		if status != want || !strings.HasSuffix(errs.String(), "sara: interrupted: nothing is lost; the next run resumes here\n") {
			t.Errorf("%v: status %d, want %d\n%s", signal, status, want, errs.String())
		}
		cancel(nil)
	}
}
