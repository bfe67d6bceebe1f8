package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/demo"
	"sara/proxy/upstream/gscsim"
)

const connectedMembers = connectionMembers + " renewed properties"

// A consentForm is the form on the consent page, as a browser sends it.
type consentForm struct {
	action string
	fields url.Values
}

// openConsent gets the consent page, and fills in its form as the page does: everything is ticked, no button pressed.
func openConsent(t *testing.T, address string) consentForm {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	page, err := html.Parse(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", address, response.Status, err)
	}
	form := consentForm{fields: make(url.Values)}
	for node := range page.Descendants() {
		attributes := make(map[string]string)
		for _, a := range node.Attr {
			attributes[a.Key] = a.Val
		}
		_, checked := attributes["checked"]
		switch {
		case node.Data == "form":
			action, err := response.Request.URL.Parse(attributes["action"])
			if err != nil {
				t.Fatal(err)
			}
			form.action = action.String()
		case node.Data == "input" && (attributes["type"] == "hidden" || checked):
			form.fields.Add(attributes["name"], attributes["value"])
		}
	}
	return form
}

// submit presses a button, follows the browser back, and returns the page that it ends at.
func (f consentForm) submit(t *testing.T, button string) (status int, page string) {
	t.Helper()
	fields := maps.Clone(f.fields)
	fields.Set("answer", button)
	response, err := http.PostForm(f.action, fields)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// as answers for another account.
func (f consentForm) as(account string) consentForm {
	f.fields.Set("account", account)
	return f
}

// A connecting is a connect command that waits for a consent.
type connecting struct {
	*cli
	stdout bytes.Buffer // once it has ended
	stderr *transcript
	cancel context.CancelFunc
	ended  chan int
}

// connect starts a connect command.
func (c *cli) connect(args ...string) *connecting {
	ctx, cancel := context.WithCancel(c.t.Context())
	run1 := &connecting{cli: c, stderr: new(transcript), cancel: cancel, ended: make(chan int, 1)}
	args = append([]string{"connection", "connect", "Web", "--client", c.path("client.json"), "--no-browser", "--all"}, args...)
	go func() {
		run1.ended <- run(ctx, console.ProgramName, args, &run1.stdout, run1.stderr, c.env)
	}()
	c.t.Cleanup(cancel)
	return run1
}

var consentAddress = regexp.MustCompile(`(?m)^  (http\S+)$`)

// address waits for the address of the consent page.
func (r *connecting) address() string {
	r.t.Helper()
	return addressIn(r.t, r.stderr)
}

func addressIn(t *testing.T, printed *transcript) (address string) {
	t.Helper()
	poll(t, "the address of the consent page", func() bool {
		m := consentAddress.FindStringSubmatch(printed.String())
		if m != nil {
			address = m[1]
		}
		return m != nil
	})
	return address
}

// end waits for the end of the command.
func (r *connecting) end() (status int, stdout, stderr string) {
	r.t.Helper()
	select {
	case status = <-r.ended:
	case <-time.After(hurry):
		r.t.Fatalf("the command does not end:\n%s", r.stderr)
	}
	stdout, stderr = r.stdout.String(), r.stderr.String()
	r.said.WriteString(stdout + stderr)
	return status, stdout, stderr
}

// fails checks that the command ends with one line of error, and has stored nothing.
func (r *connecting) fails(want string) {
	r.t.Helper()
	status, stdout, stderr := r.end()
	_, message, _ := strings.Cut(stderr, "sara: ")
	if status != exitError || stdout != "" || !strings.HasPrefix(message, "nothing was stored: "+want) || strings.Count(message, "\n") != 1 {
		r.t.Errorf("status %d, output %q, want one line with %q:\n%s", status, stdout, want, stderr)
	}
	if list := r.array(connectionMembers, "connection", "list"); len(list) != 0 {
		r.t.Errorf("a connection was stored: %v", list)
	}
}

// issuedTokens are the codes and tokens that a simulator issues.
type issuedTokens struct {
	mu     sync.Mutex // guards the following field
	tokens []string
}

// record remembers what the token endpoint answers, and the codes that it exchanges.
func (i *issuedTokens) record(simulator http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/token" {
			simulator.ServeHTTP(w, r)
			return
		}
		recorded := httptest.NewRecorder()
		r.Header.Del("Accept-Encoding")
		simulator.ServeHTTP(recorded, r)
		var answer map[string]any
		_ = json.Unmarshal(recorded.Body.Bytes(), &answer) // an answer without tokens has none
		i.mu.Lock()
		for _, name := range []string{"refresh_token", "access_token", "id_token"} {
			if text, ok := answer[name].(string); ok {
				i.tokens = append(i.tokens, text)
			}
		}
		i.tokens = append(i.tokens, r.PostForm["code"]...)
		i.tokens = append(i.tokens, r.PostForm["code_verifier"]...)
		i.mu.Unlock()
		maps.Copy(w.Header(), recorded.Header())
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(recorded.Body.Bytes())
	})
}

// secrets returns them by name.
func (i *issuedTokens) secrets() map[string]string {
	i.mu.Lock()
	defer i.mu.Unlock()
	secrets := make(map[string]string)
	for n, text := range i.tokens {
		secrets["code or token "+string(rune('a'+n))] = text
	}
	return secrets
}

// newConsentCLI returns a cli with a workspace and the file of an OAuth client, and the tokens that its simulator issues.
func newConsentCLI(t *testing.T) (*cli, *demo.Users, *issuedTokens) {
	t.Helper()
	issued := new(issuedTokens)
	people, _ := simulateBehind(t, issued.record)
	c := newCLI(t).against(people)
	c.write("client.json", string(people.Client.JSON(people.URL)))
	c.ok("account", "add", "Acme", "--plan", "pro")
	c.ok("workspace", "add", "Acme", "Web")
	return c, people, issued
}

func TestConnectStoresAConsentWithItsSites(t *testing.T) {
	t.Parallel()
	c, people, issued := newConsentCLI(t)
	portfolio := demo.AddressOf(demo.PortfolioConnection)
	connect := func(args ...string) (connected map[string]any, said string) {
		t.Helper()
		r := c.connect(append(args, "--json")...)
		if status, page := openConsent(t, r.address()).as(portfolio).submit(t, "allow"); status != http.StatusOK || !strings.Contains(page, "Back to the terminal") {
			t.Errorf("the browser ends at: %d %s", status, page)
		}
		status, stdout, stderr := r.end()
		if err := json.Unmarshal([]byte(stdout), &connected); err != nil || status != exitOK {
			t.Fatalf("status %d, %q, %v\n%s", status, stdout, err, stderr)
		}
		c.hasMembers(connected, connectedMembers)
		return connected, stderr
	}
	first, said := connect()
	properties, _ := first["properties"].([]any)
	if first["kind"] != "authorized_user" || first["name"] != portfolio || first["identity"] != portfolio || first["renewed"] != false || len(properties) != 6 {
		t.Errorf("connected %v", first)
	}
	for _, want := range []string{"Checked: " + demo.SitePrefix + " had ", " clicks in the last 28 days.\n", "project gscsim is external and its publishing status is Testing, Google ends this consent after 7 days"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	again, _ := connect()
	if c.id(again) != c.id(first) || again["renewed"] != true || again["revision"] != 2.0 || again["properties"].([]any)[0].(map[string]any)["result"] != "kept" {
		t.Errorf("connected again: %v", again)
	}
	if second, _ := connect("--name", "second"); second["name"] != "second" || second["renewed"] != false {
		t.Errorf("under another name: %v", second)
	}
	if list := c.array(connectionMembers, "connection", "list"); len(list) != 2 {
		t.Errorf("list: %v", list)
	}
	c.keptSecrets(people)
	e := evidence{"a command's output": []byte(c.said.String())}
	e.addFiles(t, "a file", c.folder)
	if secrets := issued.secrets(); len(secrets) < 9 {
		t.Errorf("only %d codes and tokens were issued", len(secrets))
	} else if leaks := e.leaks(secrets); len(leaks) > 0 {
		t.Error(strings.Join(leaks, "\n"))
	}
}

func TestConnectStoresNothingWithoutAGoodAnswer(t *testing.T) {
	t.Parallel()
	c, _, _ := newConsentCLI(t)
	portfolio := demo.AddressOf(demo.PortfolioConnection)

	denied := c.connect()
	if status, page := openConsent(t, denied.address()).submit(t, "deny"); status != http.StatusBadRequest || !strings.Contains(page, "Nothing was stored") {
		t.Errorf("the browser ends at: %d %s", status, page)
	}
	denied.fails("the consent was denied")

	unticked := c.connect()
	form := openConsent(t, unticked.address()).as(portfolio)
	form.fields.Del("granted")
	form.submit(t, "allow")
	unticked.fails("the consent leaves out Search Console: connect again, and tick the access to Search Console data")

	foreign := c.connect()
	form = openConsent(t, foreign.address()).as(portfolio)
	form.fields.Set("state", "another")
	form.submit(t, "allow")
	foreign.fails("the answer belongs to another attempt")

	revoked := c.connect()
	openConsent(t, revoked.address()).as(demo.AddressOf(demo.FormerConnection)).submit(t, "allow")
	revoked.fails("search console: misconfigured (400 invalid_grant): the code of the consent was used already, or is too old")

	c.connect("--wait", "1ms").fails("no answer within 1ms: run the command again")

	interrupted := c.connect()
	interrupted.address()
	interrupted.cancel()
	interrupted.fails("interrupted before the consent")
}

// A request that is no answer does not end the wait: browsers ask for icons, and other pages guess ports.
func TestConnectIgnoresRequestsThatAreNoAnswer(t *testing.T) {
	t.Parallel()
	c, _, _ := newConsentCLI(t)
	r := c.connect()
	form := openConsent(t, r.address()).as(demo.AddressOf(demo.PortfolioConnection))
	back := form.fields.Get("redirect_uri")
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
	form.submit(t, "allow")
	if status, _, stderr := r.end(); status != exitOK {
		t.Errorf("status %d\n%s", status, stderr)
	}
}

func TestConnectRefusesAnAccountWithoutSites(t *testing.T) {
	t.Parallel()
	client := gscsim.Client{ID: "c.apps.googleusercontent.com", Secret: "GOCSPX-secret"}
	simulator := httptest.NewServer(gscsim.New(gscsim.Config{Now: time.Now, Clients: []gscsim.Client{client},
		Users: []gscsim.User{{Email: "ann@example.com", Sites: []gscsim.Site{{URL: "sc-domain:example.com", Permission: gscsim.UnverifiedUser}}}}}))
	t.Cleanup(simulator.Close)
	c := newCLI(t).with("SARA_UPSTREAM_URL="+simulator.URL, "SARA_OAUTH_TOKEN_URL="+simulator.URL+"/token")
	c.write("client.json", string(client.JSON(simulator.URL)))
	c.ok("account", "add", "Acme", "--plan", "pro")
	c.ok("workspace", "add", "Acme", "Web")
	r := c.connect()
	openConsent(t, r.address()).submit(t, "allow")
	r.fails("ann@example.com reads no site: ")
}

func TestConnectRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	c, people, _ := newConsentCLI(t)
	connect := func(text string, flags ...string) []string {
		return append([]string{"connection", "connect", "Web", "--no-browser", "--client", c.write("other.json", text)}, flags...)
	}
	good := string(people.Client.JSON(people.URL))
	c.fails(exitError, connect(good), "there is no terminal on which to choose the sites", "--all")
	c.fails(exitError, connect(strings.Replace(good, "installed", "web", 1), "--all"), `"Web application"`, `"Desktop app"`)
	c.fails(exitError, connect(string(people.Credentials[demo.ShopConnection]), "--all"), "of type service_account", "sara connection add")
	c.fails(exitError, connect(strings.Replace(good, people.URL+"/token", "https://collector.example/token", 1), "--all"), `member "token_uri" is not Google's token endpoint`)
	c.fails(exitError, connect(strings.Replace(good, people.URL+"/o/", "https://collector.example/o/", 1), "--all"), `member "auth_uri" is not Google's consent page`)
	c.fails(exitError, connect(strings.Replace(good, "client_secret", "client", 1), "--all"), `member "client_secret" is missing`)
	c.fails(exitError, []string{"connection", "connect", "Nowhere", "--client", c.path("client.json"), "--all"}, "sara workspace list")
	c.fails(exitError, []string{"connection", "connect", "Web", "--client", c.path("none.json"), "--all"}, "none.json")
	c.fails(exitUsage, []string{"connection", "connect", "Web"}, "--client")
	if strings.Contains(c.said.String(), people.Client.Secret) {
		t.Error("the client's secret was printed")
	}
	keyless := *c
	keyless.env = slices.DeleteFunc(slices.Clone(c.env), func(v string) bool { return strings.HasPrefix(v, "SARA_SECRET_KEY") })
	keyless.fails(exitError, connect(good, "--all"), "SARA_SECRET_KEY")
}
