// Package stage sets up what a measurement of sara needs, privately: the built binary, as many replicas of it as wanted, a
// Redis if there is more than one, a SQLite database in a temporary folder that the binary's own commands filled, and
// the simulated Search Console in this process. It knows sara from outside only: commands, environment, HTTP.
//
// Everything listens on free ports of 127.0.0.1 and ends with Close; the processes end with this one too, however that
// ends. A Stage is for one goroutine, but for Drive, which makes its own.
package stage

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sara/proxy/upstream/gscsim"
)

// Config is what to set up.
type Config struct {
	Accounts []Account
	// Site gives the sizes of every simulated site; its URL and Brand are not used.
	Site       gscsim.Site
	Replicas   int    // at least 1; more than one needs redis-server
	Redis      bool   // there is a Redis even for one replica
	CacheBytes string // bound of each replica's memory cache, such as 64MiB; empty for sara's default
	// Log is a file that gets the replicas' log, at sara's default level. Empty: only warnings are written, and those that a
	// replica wrote last are in the error if it does not end well.
	Log string
}

// An Account has a workspace, a connection and people, each with one key.
type Account struct {
	People     int // at most 10, by the plan that all have
	Properties []Property
	PerMinute  int // requests that one key is admitted a minute; 0: nobody gets near any allowance
}

// Raised is an allowance that nobody gets near. It is counted all the same.
const Raised = 100_000_000

// plan is the name of the account's plan, which is of the stage's own making.
func (a Account) plan() string {
	if a.PerMinute == 0 {
		return "raised"
	}
	return fmt.Sprintf("minute-%d", a.PerMinute)
}

// A Property is a domain property, reached by all people of its account.
type Property struct {
	Domain     string
	Queries    int // of its simulated site; 0: as Config.Site has it
	BrandTerms []string
	PageGroups []string // each is the pages below /name/ in lower case
}

// A Stage is a running sara.
type Stage struct {
	Keys      [][]string // by account and person
	Replicas  []Replica
	Redis     *Redis // nil if there is none
	Simulator *gscsim.Server

	folder    string
	binary    string // sara
	env       []string
	log       *os.File   // nil: replicas only warn
	processes []*process // in the order in which they were started
	upstream  *httptest.Server
	client    *http.Client
}

// patience is how long starting or stopping one thing may take, on a slow machine that does a lot else.
const patience = 60 * time.Second

// Start builds the binary, unless SARA_BINARY names one, and starts everything. To build it, the working directory has to be
// inside the module.
func Start(ctx context.Context, c Config) (_ *Stage, err error) {
	s := &Stage{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxConnections}, Timeout: patience}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.folder, err = os.MkdirTemp("", "sara-bench-"); err != nil {
		return nil, err
	}
	if err := s.build(ctx); err != nil {
		return nil, err
	}
	credentials, err := s.simulate(c)
	if err != nil {
		return nil, err
	}
	if err := s.settings(c); err != nil {
		return nil, err
	}
	for i, account := range c.Accounts {
		if err := s.seed(ctx, strconv.Itoa(i), account, credentials[i]); err != nil {
			return nil, err
		}
	}
	for range c.Replicas {
		if err := s.AddReplica(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Stage) build(ctx context.Context) error {
	if s.binary = os.Getenv("SARA_BINARY"); s.binary != "" {
		return nil
	}
	s.binary = filepath.Join(s.folder, "sara")
	// Without what only debuggers want, which takes as long to link as all the rest.
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", s.binary, "sara/cmd/sara")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build sara: %w\n%s", err, said)
	}
	return nil
}

// Close stops everything and removes the folder. Its error says how processes ended that did not end well.
func (s *Stage) Close() error {
	var failures []error
	for i := len(s.processes) - 1; i >= 0; i-- {
		failures = append(failures, s.processes[i].stop())
	}
	s.client.CloseIdleConnections()
	if s.upstream != nil {
		s.upstream.Close()
	}
	if s.log != nil {
		failures = append(failures, s.log.Close())
	}
	return errors.Join(append(failures, os.RemoveAll(s.folder))...)
}

// Database is the path of the SQLite file that the replicas read, for those who seed more than commands do in time.
func (s *Stage) Database() string { return filepath.Join(s.folder, "sara.db") }

func (s *Stage) write(name string, text []byte) (path string, err error) {
	path = filepath.Join(s.folder, name)
	return path, os.WriteFile(path, text, 0o600)
}

// simulate starts the simulator, with one user for each account, and returns their credential files.
func (s *Stage) simulate(c Config) (credentials [][]byte, err error) {
	var users []gscsim.User
	for i, account := range c.Accounts {
		name := fmt.Sprintf("account-%d", i)
		user := gscsim.User{Email: name, ClientID: name + ".apps.googleusercontent.com", ClientSecret: rand.Text(), RefreshToken: rand.Text()}
		for _, property := range account.Properties {
			site := c.Site
			site.URL = "sc-domain:" + property.Domain
			if property.Queries > 0 {
				site.Queries = property.Queries
			}
			user.Sites = append(user.Sites, site)
		}
		file, err := user.AuthorizedUserJSON()
		if err != nil {
			return nil, err
		}
		users, credentials = append(users, user), append(credentials, file)
	}
	const seed = 11
	noBound := gscsim.Quotas{SearchPerMinute: -1, InspectionsPerMinute: -1, InspectionsPerDay: -1}
	s.Simulator = gscsim.New(gscsim.Config{Seed: seed, Now: time.Now, Quotas: noBound, Users: users})
	s.upstream = httptest.NewServer(s.Simulator)
	return credentials, nil
}

// plans returns the plan table of the accounts.
func plans(accounts []Account) []byte {
	text := []byte("plans:\n")
	written := map[string]bool{}
	for _, account := range accounts {
		name, perMinute := account.plan(), account.PerMinute
		if written[name] {
			continue
		}
		if perMinute == 0 {
			perMinute = Raised
		}
		text = fmt.Appendf(text, "  %s: {api_access: true, keys: 10, requests_per_minute_per_key: %d, requests_per_hour: %[3]d, "+
			"requests_per_day: %[3]d, search_console_calls_per_day: %[3]d, live_calls_per_minute_per_property: %[3]d, "+
			"retention_months: 84, inspected_urls_per_property: 1000}\n", name, perMinute, Raised)
		written[name] = true
	}
	return text
}

// settings makes the environment that the commands and the replicas share.
func (s *Stage) settings(c Config) error {
	plans, err := s.write("plans.yaml", plans(c.Accounts))
	if err != nil {
		return err
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "SARA_") { // somebody's own sara is none of our business
			s.env = append(s.env, variable)
		}
	}
	s.env = append(s.env, "SARA_DATABASE_URL=sqlite:"+s.Database(),
		"SARA_SECRET_KEY="+base64.StdEncoding.EncodeToString(secret), "SARA_PLANS_FILE="+plans,
		"SARA_UPSTREAM_URL="+s.upstream.URL, "SARA_OAUTH_TOKEN_URL="+s.upstream.URL+"/token",
		"SARA_ARCHIVE_URL=file://"+filepath.Join(s.folder, "archive"), "SARA_COLLECT=off", "SARA_INSPECT=off",
		"SARA_REPLICAS="+strconv.Itoa(c.Replicas))
	if c.CacheBytes != "" {
		s.env = append(s.env, "SARA_CACHE_BYTES="+c.CacheBytes)
	}
	if c.Log == "" {
		s.env = append(s.env, "SARA_LOG_LEVEL=warn")
	} else if s.log, err = os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	if c.Redis || c.Replicas > 1 {
		if s.Redis, err = s.AddRedis(); err != nil {
			return err
		}
		s.env = append(s.env, "SARA_REDIS_URL=redis://"+s.Redis.Address)
	}
	return nil
}

// AddRedis starts a Redis that keeps nothing on the disk. The replicas do not use it.
func (s *Stage) AddRedis() (*Redis, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	redis, err := s.launch("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no")
	if err != nil {
		return nil, err
	}
	_, err = redis.await("eady to accept connections")
	return &Redis{address, redis.pid}, err
}

// AddReplica starts one more replica, with flags of sara serve that differ from the others', and waits until it listens.
func (s *Stage) AddReplica(flags ...string) error {
	p := &process{name: "sara"}
	var stderr io.Writer = &p.stderr
	if s.log != nil {
		stderr = s.log
	}
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, flags...)
	if err := s.start(p, stderr, s.binary, args); err != nil {
		return err
	}
	r := Replica{PID: p.pid}
	var err error
	if r.URL, err = p.await("listening on "); err != nil {
		return err
	}
	if r.AdminURL, err = p.await("admin listening on "); err != nil {
		return err
	}
	s.Replicas = append(s.Replicas, r)
	return nil
}

// AddServer starts a server that is not sara, which says on standard output "listening on" what address, and returns that.
func (s *Stage) AddServer(program string, args ...string) (address string, pid int, err error) {
	p, err := s.launch(program, args...)
	if err != nil {
		return "", 0, err
	}
	address, err = p.await("listening on ")
	return address, p.pid, err
}

// Archive has sara archive a history of a property: CSV as sara archive import reads it.
func (s *Stage) Archive(ctx context.Context, domain string, history []byte) error {
	file, err := s.write("history-"+domain+".csv", history)
	if err != nil {
		return err
	}
	_, err = s.run(ctx, "archive", "import", domain, file)
	return err
}
