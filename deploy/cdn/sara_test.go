package cdn_test

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sara/archive/sqlstore/pgtest"
	"sara/cmd/sara/saratest"
	"sara/policy/redistest"
	"sara/proxy/upstream/gscsim"
)

// plans has high limits, and one plan whose limit is reached soon.
const plans = `plans:
  generous: {api_access: true, keys: 3, requests_per_minute_per_key: 100000, requests_per_hour: 100000, requests_per_day: 100000, search_console_calls_per_day: 100000, live_calls_per_minute_per_property: 100000, retention_months: 16, inspected_urls_per_property: 100}
  tight: {api_access: true, keys: 3, requests_per_minute_per_key: 3, requests_per_hour: 100000, requests_per_day: 100000, search_console_calls_per_day: 100000, live_calls_per_minute_per_property: 100000, retention_months: 16, inspected_urls_per_property: 100}
`

// A world is nginx in front of two replicas of sara, with their servers.
type world struct {
	t         *testing.T
	cdn       *cdn
	simulator *gscsim.Server
	replicas  [2]*replica
	keys      map[string]string // by account

	binary, folder string
	env            []string
	asker          *http.Client
}

// A replica is a process of sara.
type replica struct {
	base    string
	process *exec.Cmd
}

// newWorld sets up three accounts. red and blue each have their own property shop.example, and red has red.example as well.
// tight has no property, and a limit of three requests a minute.
func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs sara, nginx, Redis and PostgreSQL")
	}
	findNginx(t) // before the slow part
	w := &world{t: t, keys: make(map[string]string), folder: t.TempDir(), asker: client("127.0.0.1")}
	server, database := redistest.Single(t), pgtest.Start(t)
	w.binary = saratest.Binary(t)
	red := w.user("red", gscsim.Site{URL: "sc-domain:shop.example", Queries: 60, Pages: 30},
		gscsim.Site{URL: "sc-domain:red.example", Queries: 60, Pages: 30})
	blue := w.user("blue", gscsim.Site{URL: "sc-domain:shop.example", Queries: 90, Pages: 30})
	w.simulator = gscsim.New(gscsim.Config{Seed: 7, Now: time.Now, Users: []gscsim.User{red, blue}})
	upstream := httptest.NewServer(w.simulator)
	t.Cleanup(upstream.Close)
	w.settings(map[string]string{"SARA_DATABASE_URL": database.NewDatabase(t), "SARA_REDIS_URL": server.URL(), "SARA_REPLICAS": "2",
		"SARA_UPSTREAM_URL": upstream.URL, "SARA_OAUTH_TOKEN_URL": upstream.URL + "/token", "SARA_PLANS_FILE": w.write("plans.yaml", []byte(plans)),
		"SARA_ARCHIVE_URL": filepath.Join(w.folder, "archive"), "SARA_COLLECT": "off", "SARA_INSPECT": "off",
		"SARA_TRUSTED_PROXY_HEADER": "X-Real-IP", "SARA_BASE_URL": "https://api.example.com"})
	w.open("red", "generous", &red)
	w.open("blue", "generous", &blue)
	w.open("tight", "tight", nil)
	for i := range w.replicas {
		w.replicas[i] = w.serve()
	}
	w.cdn = startCDN(t, [2]string{strings.TrimPrefix(w.replicas[0].base, "http://"), strings.TrimPrefix(w.replicas[1].base, "http://")})
	return w
}

func (w *world) user(name string, sites ...gscsim.Site) gscsim.User {
	return gscsim.User{Email: name, ClientID: name + ".apps.googleusercontent.com", ClientSecret: rand.Text(), RefreshToken: rand.Text(), Sites: sites}
}

func (w *world) write(name string, content []byte) (path string) {
	w.t.Helper()
	path = filepath.Join(w.folder, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// settings sets the environment of all processes of sara.
func (w *world) settings(values map[string]string) {
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "SARA_") { // the settings of another sara
			w.env = append(w.env, variable)
		}
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	w.env = append(w.env, "SARA_SECRET_KEY="+base64.StdEncoding.EncodeToString(secret))
	for name, value := range values {
		w.env = append(w.env, name+"="+value)
	}
}

// open adds an account with a key and, if user is not nil, all properties of that Google user.
func (w *world) open(account, plan string, user *gscsim.User) {
	w.t.Helper()
	email := account + "@example.com"
	w.run("account", "add", account, "--plan", plan)
	w.run("workspace", "add", account, account)
	w.run("person", "add", account, email, "--workspace", account)
	var created struct{ Key string }
	if err := json.Unmarshal(w.run("key", "create", email, "--name", "test", "--json"), &created); err != nil || created.Key == "" {
		w.t.Fatalf("sara key create printed no key: %v", err)
	}
	w.keys[account] = created.Key
	if user == nil {
		return
	}
	credentials, err := user.AuthorizedUserJSON()
	if err != nil {
		w.t.Fatal(err)
	}
	w.run("connection", "add", account, "--credentials", w.write(account+".json", credentials), "--name", account)
	w.run("property", "import", account)
}

// run runs a command of sara, and returns its output.
func (w *world) run(args ...string) []byte {
	w.t.Helper()
	command := exec.CommandContext(w.t.Context(), w.binary, args...)
	command.Env, command.Dir = w.env, w.folder
	printed, err := command.Output()
	if err != nil {
		w.t.Fatalf("sara %s: %v", strings.Join(args, " "), err)
	}
	return printed
}

// serve starts a replica that runs until the test ends.
func (w *world) serve() *replica {
	w.t.Helper()
	r := &replica{process: exec.CommandContext(w.t.Context(), w.binary, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")}
	r.process.Env, r.process.Dir = w.env, w.folder
	r.process.Cancel = func() error { return r.process.Process.Signal(syscall.SIGTERM) }
	r.process.WaitDelay = patience
	stdout, err := r.process.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := r.process.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(r.wait)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	base, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "listening on ")
	if err != nil || !ok {
		w.t.Fatalf("sara serve printed no address: %q (%v)", line, err)
	}
	r.base = base
	return r
}

// wait waits for the end of the process, however it ends.
func (r *replica) wait() { _ = r.process.Wait() }

// end sends the process a signal, and waits for its end.
func (r *replica) end(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := r.process.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	r.wait()
}

// get sends a request to nginx, with the key of an account unless that is empty.
func (w *world) get(t *testing.T, account, path string, headers ...string) answer {
	t.Helper()
	return w.from(t, w.cdn.base, account, path, headers...)
}

// from sends a request to a base URL.
func (w *world) from(t *testing.T, base, account, path string, headers ...string) answer {
	t.Helper()
	if account != "" {
		headers = append(headers, "Authorization", "Bearer "+w.keys[account])
	}
	a, err := ask(w.asker, http.MethodGet, base+path, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
