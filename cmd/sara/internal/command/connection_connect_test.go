package command

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/demo"
	"sara/proxy/upstream/gscsim"
)

const connectedMembers = connectionMembers + " renewed properties"

// A connecting is a connect command that waits for a consent.
type connecting struct {
	*clitest.CLI
	stdout bytes.Buffer // once it has ended
	stderr *clitest.Transcript
	cancel context.CancelFunc
	ended  chan int
}

// startConnect starts a connect command.
func startConnect(c *clitest.CLI, args ...string) *connecting {
	ctx, cancel := context.WithCancel(c.T.Context())
	r := &connecting{CLI: c, stderr: new(clitest.Transcript), cancel: cancel, ended: make(chan int, 1)}
	args = append([]string{"connection", "connect", "Web", "--client", c.Path("client.json"), "--no-browser", "--all"}, args...)
	go func() {
		r.ended <- sara(ctx, args, c.Env, nil, &r.stdout, r.stderr)
	}()
	c.T.Cleanup(cancel)
	return r
}

// address waits for the address of the consent page.
func (r *connecting) address() string {
	r.T.Helper()
	return clitest.AddressIn(r.T, r.stderr)
}

// end waits for the end of the command.
func (r *connecting) end() (status int, stdout, stderr string) {
	r.T.Helper()
	select {
	case status = <-r.ended:
	case <-time.After(clitest.Hurry):
		r.T.Fatalf("the command does not end:\n%s", r.stderr)
	}
	stdout, stderr = r.stdout.String(), r.stderr.String()
	r.Said.WriteString(stdout + stderr)
	return status, stdout, stderr
}

// fails checks that the command ends with one line of error, and has stored nothing.
func (r *connecting) fails(want string) {
	r.T.Helper()
	status, stdout, stderr := r.end()
	_, message, _ := strings.Cut(stderr, "sara: ")
	if status != ExitError || stdout != "" || !strings.HasPrefix(message, "nothing was stored: "+want) || strings.Count(message, "\n") != 1 {
		r.T.Errorf("status %d, output %q, want one line with %q:\n%s", status, stdout, want, stderr)
	}
	if list := r.Array(connectionMembers, "connection", "list"); len(list) != 0 {
		r.T.Errorf("a connection was stored: %v", list)
	}
}

func TestConnectStoresAConsentWithItsSites(t *testing.T) {
	t.Parallel()
	c, people, issued := clitest.NewConsentCLI(t, sara)
	portfolio := demo.AddressOf(demo.PortfolioConnection)
	connect := func(args ...string) (connected map[string]any, said string) {
		t.Helper()
		r := startConnect(c, append(args, "--json")...)
		if status, page := clitest.OpenConsent(t, r.address()).As(portfolio).Submit(t, "allow"); status != http.StatusOK ||
			!strings.Contains(page, "Back to the terminal") {
			t.Errorf("the browser ends at: %d %s", status, page)
		}
		status, stdout, stderr := r.end()
		if err := json.Unmarshal([]byte(stdout), &connected); err != nil || status != ExitOK {
			t.Fatalf("status %d, %q, %v\n%s", status, stdout, err, stderr)
		}
		c.HasMembers(connected, connectedMembers)
		return connected, stderr
	}
	first, said := connect()
	properties, _ := first["properties"].([]any)
	if first["kind"] != "authorized_user" || first["name"] != portfolio || first["identity"] != portfolio ||
		first["renewed"] != false || len(properties) != 6 {
		t.Errorf("connected %v", first)
	}
	for _, want := range []string{"in a browser on this machine (on another one: sara connection connect --help)",
		"Checked: " + demo.SitePrefix + " had ", " clicks in the last 28 days.\n",
		"project gscsim is external and its publishing status is Testing, Google ends this consent after 7 days"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	again, _ := connect()
	if c.ID(again) != c.ID(first) || again["renewed"] != true || again["revision"] != 2.0 ||
		again["properties"].([]any)[0].(map[string]any)["result"] != "kept" {
		t.Errorf("connected again: %v", again)
	}
	if second, _ := connect("--name", "second"); second["name"] != "second" || second["renewed"] != false {
		t.Errorf("under another name: %v", second)
	}
	if list := c.Array(connectionMembers, "connection", "list"); len(list) != 2 {
		t.Errorf("list: %v", list)
	}
	c.KeptSecrets(people)
	e := clitest.Evidence{"a command's output": []byte(c.Said.String())}
	e.AddFiles(t, "a file", c.Folder)
	if secrets := issued.Secrets(); len(secrets) < 9 {
		t.Errorf("only %d codes and tokens were issued", len(secrets))
	} else if leaks := e.Leaks(secrets); len(leaks) > 0 {
		t.Error(strings.Join(leaks, "\n"))
	}
}

func TestConnectStoresNothingWithoutAGoodAnswer(t *testing.T) {
	t.Parallel()
	c, _, _ := clitest.NewConsentCLI(t, sara)
	portfolio := demo.AddressOf(demo.PortfolioConnection)

	denied := startConnect(c)
	if status, page := clitest.OpenConsent(t, denied.address()).Submit(t, "deny"); status != http.StatusBadRequest ||
		!strings.Contains(page, "Nothing was stored") {
		t.Errorf("the browser ends at: %d %s", status, page)
	}
	denied.fails("the consent was denied")

	unticked := startConnect(c)
	form := clitest.OpenConsent(t, unticked.address()).As(portfolio)
	form.Fields.Del("granted")
	form.Submit(t, "allow")
	unticked.fails("the consent leaves out Search Console: connect again, and tick the access to Search Console data")

	revoked := startConnect(c)
	clitest.OpenConsent(t, revoked.address()).As(demo.AddressOf(demo.FormerConnection)).Submit(t, "allow")
	revoked.fails("search console: misconfigured (400 invalid_grant): the consent code was already used or has expired")

	startConnect(c, "--wait", "1ms").fails("no answer within 1ms: run the command again")

	interrupted := startConnect(c)
	interrupted.address()
	interrupted.cancel()
	interrupted.fails("interrupted before the consent")
}

// A request that is no answer does not end the wait: browsers ask for icons, and other pages guess ports.
func TestConnectIgnoresRequestsThatAreNoAnswer(t *testing.T) {
	t.Parallel()
	c, _, _ := clitest.NewConsentCLI(t, sara)
	r := startConnect(c)
	form := clitest.OpenConsent(t, r.address()).As(demo.AddressOf(demo.PortfolioConnection))
	back := form.Fields.Get("redirect_uri")
	rebound, err := http.NewRequest(http.MethodGet, back+"/?state=x&code=y", nil)
	if err != nil {
		t.Fatal(err)
	}
	rebound.Host = "attacker.example"
	icon, err := http.NewRequest(http.MethodGet, back+"/favicon.ico", nil)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := http.NewRequest(http.MethodGet, back, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []*http.Request{rebound, icon, bare} {
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: %s, %v", request.URL, response.Status, err)
		}
	}
	form.Submit(t, "allow")
	if status, _, stderr := r.end(); status != ExitOK {
		t.Errorf("status %d\n%s", status, stderr)
	}
}

// An answer with another state does not end the wait: any local page or program can send one.
func TestConnectWaitsOnAfterAnAnswerToAnotherAttempt(t *testing.T) {
	t.Parallel()
	c, _, _ := clitest.NewConsentCLI(t, sara)
	r := startConnect(c)
	form := clitest.OpenConsent(t, r.address()).As(demo.AddressOf(demo.PortfolioConnection))
	state := form.Fields.Get("state")
	for _, decision := range []string{"allow", "deny"} {
		form.Fields.Set("state", "another")
		if status, page := form.Submit(t, decision); status != http.StatusForbidden || !strings.Contains(page, "another attempt") {
			t.Errorf("%s of another attempt ends at: %d %s", decision, status, page)
		}
	}
	form.Fields.Set("state", state)
	form.Submit(t, "allow")
	if status, _, stderr := r.end(); status != ExitOK {
		t.Errorf("status %d\n%s", status, stderr)
	}
}

func TestConnectRefusesAnAccountWithoutSites(t *testing.T) {
	t.Parallel()
	client := gscsim.Client{ID: "c.apps.googleusercontent.com", Secret: "GOCSPX-secret"}
	simulator := httptest.NewServer(gscsim.New(gscsim.Config{Now: time.Now, Clients: []gscsim.Client{client},
		Users: []gscsim.User{{Email: "ann@example.com", Sites: []gscsim.Site{{URL: "sc-domain:example.com", Permission: gscsim.UnverifiedUser}}}}}))
	t.Cleanup(simulator.Close)
	c := clitest.New(t, sara).With("SARA_UPSTREAM_URL="+simulator.URL, "SARA_OAUTH_TOKEN_URL="+simulator.URL+"/token")
	c.Write("client.json", string(client.JSON(simulator.URL)))
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	r := startConnect(c)
	clitest.OpenConsent(t, r.address()).Submit(t, "allow")
	r.fails("ann@example.com reads no site: ")
}

func TestConnectRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	c, people, _ := clitest.NewConsentCLI(t, sara)
	connect := func(text string, flags ...string) []string {
		return append([]string{"connection", "connect", "Web", "--no-browser", "--client", c.Write("other.json", text)}, flags...)
	}
	good := string(people.Client.JSON(people.URL))
	c.Fails(ExitError, connect(good), "there is no terminal on which to choose the sites", "--all")
	c.Fails(ExitError, connect(strings.Replace(good, "installed", "web", 1), "--all"), `"Web application"`, `"Desktop app"`)
	c.Fails(ExitError, connect(string(people.Credentials[demo.ShopConnection]), "--all"), "of type service_account", "sara connection add")
	c.Fails(ExitError, connect(strings.Replace(good, people.URL+"/token", "https://collector.example/token", 1), "--all"),
		`member "token_uri" is not Google's token endpoint`)
	c.Fails(ExitError, connect(strings.Replace(good, people.URL+"/o/", "https://collector.example/o/", 1), "--all"),
		`member "auth_uri" is not Google's consent page`)
	c.Fails(ExitError, connect(strings.Replace(good, "client_secret", "client", 1), "--all"), `member "client_secret" is missing`)
	c.Fails(ExitError, []string{"connection", "connect", "Nowhere", "--client", c.Path("client.json"), "--all"}, "sara workspace list")
	c.Fails(ExitError, []string{"connection", "connect", "Web", "--client", c.Path("none.json"), "--all"}, "none.json")
	c.Fails(ExitUsage, []string{"connection", "connect", "Web"}, "--client")
	c.Fails(ExitUsage, connect(good, "--all", "--wait", "0s"), "--wait 0s is not a time of more than 0s")
	c.Fails(ExitUsage, connect(good, "--all", "--port", "65536"), "--port 65536 is not a number of 1 to 65535")
	if strings.Contains(c.Said.String(), people.Client.Secret) {
		t.Error("the client's secret was printed")
	}
	keyless := *c
	keyless.Env = slices.DeleteFunc(slices.Clone(c.Env), func(v string) bool { return strings.HasPrefix(v, "SARA_SECRET_KEY") })
	keyless.Fails(ExitError, connect(good, "--all"), "SARA_SECRET_KEY")
}
