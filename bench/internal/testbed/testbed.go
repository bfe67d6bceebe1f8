// Package testbed sets up the processes and data for a measurement of sara: a built binary, any number of replicas of it, a
// Redis, a SQLite database that sara's own commands have filled, and the simulated Search Console in this process. It uses
// sara from outside only: commands, environment, HTTP.
//
// Everything listens on free ports of 127.0.0.1, keeps its files in a temporary folder, and ends with Close. Child processes
// end with this process, even if it is killed. A Testbed belongs to one goroutine.
package testbed

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"sara/bench/internal/cgroup"
	"sara/bench/internal/subprocess"
	"sara/cmd/sara/saratest"
	"sara/policy"
	"sara/proxy/upstream/gscsim"
)

// Config describes a testbed.
type Config struct {
	// Binary is a built sara. If it is empty, one is built; then the working directory must be inside the module.
	Binary   string
	Accounts []Account
	// Site has the size of every simulated site. Its URL and Brand are ignored.
	Site gscsim.Site
	// Upstream, if set, stands in front of the simulator, which it gets, as Search Console.
	Upstream   func(simulator http.Handler) http.Handler
	Plans      policy.Plans // that accounts name
	Postgres   bool         // a private PostgreSQL instead of SQLite; see HasPostgres
	S3         bool         // the archive is in a versitygw instead of a folder; see HasS3
	Group      Group        // of Redis servers
	Pooler     bool         // PgBouncer in front of PostgreSQL; see HasPooler
	RedisArgs  []string     // additional arguments of the replicas' Redis
	Usual      bool         // scheduling policy for all servers; see subprocess.Config
	Replicas   int          // started at once; more than one needs redis-server
	Redis      bool         // start a Redis even for one replica
	CacheBytes string       // SARA_CACHE_BYTES, such as 64MiB; empty for the default
	// Log is a file for the replicas' logs, at the default level. If it is empty, replicas log warnings only, and the last of
	// them are in the error of a replica that fails.
	Log string
}

// An Account has one workspace, one connection, and people with one key each.
type Account struct {
	People     int // at most 10, by the plans used here
	Properties []Property
	PerMinute  int    // requests a minute for one key; 0 for Raised
	Plan       string // one of Config.Plans; empty for a plan with no limit but PerMinute
}

// Raised is a limit that no measurement reaches. sara counts requests against it as against any other.
const Raised = 100_000_000

// plan returns the name of the account's plan.
func (a Account) plan() string {
	switch {
	case a.Plan != "":
		return a.Plan
	case a.PerMinute == 0:
		return "raised"
	}
	return fmt.Sprintf("minute-%d", a.PerMinute)
}

// A Property is a domain property that all people of its account can read.
type Property struct {
	Domain     string
	Queries    int // of its simulated site; 0 for the number in Config.Site
	BrandTerms []string
	PageGroups []string // each has the pages below /name/, in lower case
}

// A Testbed is a running sara.
type Testbed struct {
	Keys      [][]string // by account and person
	Replicas  []Replica
	Redis     *Redis    // nil if there is none; the first one of a group
	Nodes     []*Redis  // of a group
	Monitor   *Redis    // the sentinel of a group
	Postgres  *Postgres // nil if the database is SQLite
	S3        *S3       // nil if the archive is a folder
	Simulator *gscsim.Server

	pooler    *subprocess.Process // nil if there is none
	folder    string
	folders   []string // of servers
	binary    string
	env       []string
	log       *os.File // nil to log warnings only
	usual     bool
	processes []*subprocess.Process // in the order of their start
	groups    []*cgroup.Group       // of replicas
	upstream  *httptest.Server
	calls     atomic.Int64
}

// Start builds the binary, if need be, and starts everything.
func Start(ctx context.Context, c Config) (_ *Testbed, err error) {
	b := &Testbed{binary: c.Binary, usual: c.Usual}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.folder, err = os.MkdirTemp("", "sara-bench-"); err != nil {
		return nil, err
	}
	if b.binary == "" {
		b.binary = filepath.Join(b.folder, "sara")
		if err := saratest.Build(ctx, b.binary, ""); err != nil {
			return nil, err
		}
	}
	credentials, err := b.simulate(c)
	if err != nil {
		return nil, err
	}
	if err := b.configure(c); err != nil {
		return nil, err
	}
	for i, account := range c.Accounts {
		if err := b.seed(ctx, strconv.Itoa(i), account, credentials[i]); err != nil {
			return nil, err
		}
	}
	for range c.Replicas {
		if err := b.AddReplica(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Close stops everything and removes the folder. Its error has the processes that failed.
func (b *Testbed) Close() error {
	var failures []error
	if b.pooler != nil { // PostgreSQL waits for its clients to leave
		failures = append(failures, b.StopPooler())
	}
	for i := len(b.processes) - 1; i >= 0; i-- {
		failures = append(failures, b.processes[i].Stop())
	}
	for _, group := range b.groups {
		failures = append(failures, group.Remove())
	}
	if b.upstream != nil {
		b.upstream.Close()
	}
	if b.log != nil {
		failures = append(failures, b.log.Close())
	}
	for _, folder := range append(b.folders, b.folder) {
		failures = append(failures, os.RemoveAll(folder))
	}
	return errors.Join(failures...)
}

// forget ends a process before the testbed does, and returns how it ended.
func (b *Testbed) forget(p *subprocess.Process) error {
	b.processes = slices.DeleteFunc(b.processes, func(other *subprocess.Process) bool { return other == p })
	return p.Stop()
}

// Database returns the path of the SQLite file, for seeding faster than sara's commands can.
func (b *Testbed) Database() string { return filepath.Join(b.folder, "sara.db") }

func (b *Testbed) write(name string, text []byte) (path string, err error) {
	path = filepath.Join(b.folder, name)
	return path, os.WriteFile(path, text, 0o600)
}

// simulate starts the simulator, with one user for each account, and returns the users' credential files.
func (b *Testbed) simulate(c Config) (credentials [][]byte, err error) {
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
	unlimited := gscsim.Quotas{SearchPerMinute: -1, InspectionsPerMinute: -1, InspectionsPerDay: -1}
	b.Simulator = gscsim.New(gscsim.Config{Seed: seed, Now: time.Now, Quotas: unlimited, Users: users})
	b.upstream = httptest.NewServer(b.count(c.upstream(b.Simulator)))
	return credentials, nil
}

// count counts search analytics calls on their way to the upstream.
func (b *Testbed) count(upstream http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/searchAnalytics/query") {
			b.calls.Add(1)
		}
		upstream.ServeHTTP(w, r)
	})
}

// Calls returns how many search analytics calls the replicas have made, whether the simulator answers them or what stands in front of it.
func (b *Testbed) Calls() int64 { return b.calls.Load() }

func (c Config) upstream(simulator http.Handler) http.Handler {
	if c.Upstream == nil {
		return simulator
	}
	return c.Upstream(simulator)
}

// plans returns the plans file for the accounts.
func (c Config) plans() []byte {
	plans := maps.Clone(c.Plans)
	if plans == nil {
		plans = policy.Plans{}
	}
	for _, account := range c.Accounts {
		if account.Plan != "" {
			continue
		}
		plans[account.plan()] = policy.Plan{APIAccess: true, Keys: 10, RequestsPerMinutePerKey: cmp.Or(account.PerMinute, Raised),
			RequestsPerHour: Raised, RequestsPerDay: Raised, SearchConsoleCallsPerDay: Raised, LiveCallsPerMinutePerProperty: Raised,
			RetentionMonths: 84, InspectedURLsPerProperty: 1000}
	}
	text := []byte("plans:\n")
	for name, p := range plans {
		text = fmt.Appendf(text, "  %s: {api_access: %t, keys: %d, requests_per_minute_per_key: %d, requests_per_hour: %d, "+
			"requests_per_day: %d, search_console_calls_per_day: %d, live_calls_per_minute_per_property: %d, "+
			"retention_months: %d, inspected_urls_per_property: %d}\n", name, p.APIAccess, p.Keys, p.RequestsPerMinutePerKey,
			p.RequestsPerHour, p.RequestsPerDay, p.SearchConsoleCallsPerDay, p.LiveCallsPerMinutePerProperty,
			p.RetentionMonths, p.InspectedURLsPerProperty)
	}
	return text
}

// configure sets the environment of commands and replicas, and starts Redis.
func (b *Testbed) configure(c Config) error {
	plans, err := b.write("plans.yaml", c.plans())
	if err != nil {
		return err
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "SARA_") { // the settings of another sara
			b.env = append(b.env, variable)
		}
	}
	database, err := b.database(c)
	if err != nil {
		return err
	}
	b.env = append(b.env, "SARA_DATABASE_URL="+database,
		"SARA_SECRET_KEY="+base64.StdEncoding.EncodeToString(secret), "SARA_PLANS_FILE="+plans,
		"SARA_UPSTREAM_URL="+b.upstream.URL, "SARA_OAUTH_TOKEN_URL="+b.upstream.URL+"/token",
		"SARA_ARCHIVE_URL=file://"+filepath.Join(b.folder, "archive"), "SARA_COLLECT=off", "SARA_INSPECT=off",
		"SARA_REPLICAS="+strconv.Itoa(max(1, c.Replicas)))
	if c.S3 {
		if b.S3, err = b.startS3(); err != nil {
			return err
		}
		b.env = append(b.env, b.S3.env()...)
	}
	if c.CacheBytes != "" {
		b.env = append(b.env, "SARA_CACHE_BYTES="+c.CacheBytes)
	}
	if c.Log == "" {
		b.env = append(b.env, "SARA_LOG_LEVEL=warn")
	} else if b.log, err = os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	if c.Redis || c.Replicas > 1 {
		url, err := b.startGroup(c.Group, c.RedisArgs)
		if err != nil {
			return err
		}
		b.env = append(b.env, "SARA_REDIS_URL="+url)
	}
	return nil
}

// start starts a program with the testbed's environment.
func (b *Testbed) start(stderr *os.File, program string, args ...string) (*subprocess.Process, error) {
	return b.startProcess(subprocess.Config{Program: program, Args: args, Env: b.env, Stderr: stderr})
}

// startProcess starts a program in the testbed's folder, which ends with the testbed.
func (b *Testbed) startProcess(c subprocess.Config) (*subprocess.Process, error) {
	c.Folder, c.Usual = b.folder, b.usual
	p, err := subprocess.Start(c)
	if err == nil {
		b.processes = append(b.processes, p)
	}
	return p, err
}

// AddServer starts a server other than sara, which prints "listening on" and its address, and returns the address.
func (b *Testbed) AddServer(program string, args ...string) (address string, pid int, err error) {
	p, err := b.start(nil, program, args...)
	if err != nil {
		return "", 0, err
	}
	address, err = p.Await("listening on ")
	return address, p.PID, err
}

// Archive imports a history of a property into the archive, as CSV for sara archive import.
func (b *Testbed) Archive(ctx context.Context, domain string, history []byte) error {
	file, err := b.write("history-"+domain+".csv", history)
	if err != nil {
		return err
	}
	_, err = b.run(ctx, "archive", "import", domain, file)
	return err
}
