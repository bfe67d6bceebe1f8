package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/cache"
	"sara/proxy/docs"
	"sara/proxy/upstream"
	"sara/proxy/upstream/gscsim"
	"sara/translate"
)

// A world is a complete sara for one test: the real server on a real listener, a SQLite store, and the simulator behind real
// OAuth tokens. Its clock stands still unless a test moves it.
type world struct {
	t        testing.TB
	server   *Server
	store    *sqlstore.Store
	sim      *gscsim.Server
	gateway  *upstream.Gateway
	base     string // of the public API
	admin    *httptest.Server
	log      *syncBuffer
	document *contract
	database string // file of the store

	clock        *atomic.Int64 // Unix nanoseconds
	gatewayClock *atomic.Int64 // how far the gateway's clock is ahead of it, in nanoseconds
	upstream     string        // base of the simulated Search Console
	fake         *atomic.Pointer[http.HandlerFunc]
	keys         map[string]string
	keyIDs       map[string]string
	properties   map[string]sqlstore.Property
}

// noon is the instant at which every world begins: 2026-11-21 in UTC and in Pacific time, so that the anchor is 2026-11-19.
func noon() time.Time { return time.Date(2026, time.November, 21, 20, 0, 0, 0, time.UTC) }

func (w *world) now() time.Time          { return time.Unix(0, w.clock.Load()).UTC() }
func (w *world) advance(d time.Duration) { w.clock.Add(int64(d)) }

// setClock moves the world to an instant in RFC 3339.
func (w *world) setClock(instant string) {
	w.t.Helper()
	at, err := time.Parse(time.RFC3339, instant)
	w.must(err)
	w.clock.Store(at.UnixNano())
}

// newWorld returns a seeded world that ends with the test. The server's configuration may be adjusted.
func newWorld(t testing.TB, adjust ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, log: new(syncBuffer), clock: new(atomic.Int64), gatewayClock: new(atomic.Int64), fake: new(atomic.Pointer[http.HandlerFunc])}
	w.clock.Store(noon().UnixNano())
	w.startUpstream()
	w.database = filepath.Join(t.TempDir(), "sara.db")
	w.beginWith(&theBeginning)
	w.store = w.openStore()
	w.startServer(adjust)
	return w
}

// A beginning is the seeded database of which every world gets a copy.
type beginning struct {
	mu         sync.Mutex
	database   []byte // nil: not made yet
	keys       map[string]string
	keyIDs     map[string]string
	properties map[string]sqlstore.Property
}

// theBeginning is made by the first test: to migrate and seed a database takes longer than the rest of a world.
var theBeginning beginning

// theWorlds are the sites of all simulators: to compute their data takes longer than most tests.
var theWorlds gscsim.Worlds

// beginWith builds the beginning on first use, and gives the world its own copy.
func (w *world) beginWith(b *beginning) {
	w.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.database == nil {
		b.keys, b.keyIDs, b.properties = map[string]string{}, map[string]string{}, map[string]sqlstore.Property{}
		first := *w
		first.keys, first.keyIDs, first.properties = b.keys, b.keyIDs, b.properties
		first.database = filepath.Join(w.t.TempDir(), "beginning.db")
		b.database = first.seeded()
	}
	w.keys, w.keyIDs, w.properties = maps.Clone(b.keys), maps.Clone(b.keyIDs), maps.Clone(b.properties)
	w.must(os.WriteFile(w.database, b.database, 0o600))
}

// seeded migrates and seeds the world's database, and returns the file.
func (w *world) seeded() []byte {
	w.t.Helper()
	w.store = w.open()
	_, err := w.store.Migrate(context.Background())
	w.must(err)
	w.seed()
	w.must(w.store.Close()) // the last handle: everything is in the file, nothing in the log next to it
	file, err := os.ReadFile(w.database)
	w.must(err)
	return file
}

// openStore returns a handle on the world's database, which ends with the test.
func (w *world) openStore() *sqlstore.Store {
	w.t.Helper()
	store := w.open()
	w.t.Cleanup(func() { w.must(store.Close()) })
	return store
}

func (w *world) open() *sqlstore.Store {
	w.t.Helper()
	store, err := sqlstore.Open(context.Background(), sqlstore.Config{
		URL: "sqlite:" + w.database, SecretKey: bytes.Repeat([]byte{7}, 32), Now: w.now,
	})
	w.must(err)
	return store
}

// run runs a subtest in this world; its failures are the subtest's.
func (w *world) run(name string, test func(t *testing.T)) {
	w.t.Helper()
	parent := w.t.(*testing.T)
	parent.Run(name, func(t *testing.T) {
		w.t = t
		defer func() { w.t = parent }()
		test(t)
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// The users of the simulator: one that works, and one whose access was revoked.
func simUser(name string, revoked bool, sites ...gscsim.Site) gscsim.User {
	return gscsim.User{Email: name, RefreshToken: "refresh-" + name, ClientID: "client-" + name, ClientSecret: "secret-" + name,
		Revoked: revoked, Sites: sites}
}

func users() []gscsim.User {
	small := func(site string) gscsim.Site { return gscsim.Site{URL: site, Queries: 300, Pages: 60} }
	return []gscsim.User{
		simUser("owner", false,
			gscsim.Site{URL: "sc-domain:example.com", Brand: "example"},
			small("https://www.example.org/shop/"), small("sc-domain:archived.example"), small("sc-domain:twin.example"),
			gscsim.Site{URL: "sc-domain:large.example", Queries: 40_000, Pages: 3000},
			gscsim.Site{URL: "sc-domain:empty.example", FirstDay: "2026-11-20"}),
		simUser("second", false, small("sc-domain:twin.example"), small("sc-domain:foreign.example")),
		simUser("gone", true, small("sc-domain:gone.example")),
	}
}

func (w *world) startUpstream() {
	w.sim = gscsim.New(gscsim.Config{Seed: 1, Now: w.now, TokenNow: time.Now, Users: users(), Worlds: &theWorlds})
	listener := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if fake := w.fake.Load(); fake != nil && strings.HasSuffix(r.URL.Path, "/searchAnalytics/query") {
			(*fake)(rw, r)
			return
		}
		w.sim.ServeHTTP(rw, r)
	}))
	w.t.Cleanup(listener.Close)
	w.upstream = listener.URL
}

// faults sets the simulator's faults, and makes the gateway forget earlier failures.
func (w *world) faults(f gscsim.Faults) {
	w.t.Helper()
	w.must(w.sim.SetFaults(f))
	w.gatewayClock.Add(int64(time.Minute))
}

// answerWith replaces the simulator's search analytics by a fake; nil restores it.
func (w *world) answerWith(fake http.HandlerFunc) {
	if fake == nil {
		w.fake.Store(nil)
		return
	}
	w.fake.Store(&fake)
}

// seed adds the test data through the store's own methods.
func (w *world) seed() {
	ctx := context.Background()
	for _, a := range []struct {
		name, plan string
		until      *translate.Date
	}{{"Pro", "pro", nil}, {"Agency", "agency", nil}, {"Trial", "trial", nil}, {"Lapsed", "pro", dateOf(w.t, "2026-11-20")}, {"Other", "pro", nil}} {
		_, err := w.store.AddAccount(ctx, a.name, a.plan, a.until)
		w.must(err)
	}
	for _, name := range []string{"Main", "Rest"} {
		_, err := w.store.AddWorkspace(ctx, "Pro", name)
		w.must(err)
	}
	_, err := w.store.AddWorkspace(ctx, "Other", "Elsewhere")
	w.must(err)
	for _, p := range []struct {
		account, email string
	}{{"Pro", "pro@example.com"}, {"Agency", "agency@example.com"}, {"Trial", "trial@example.com"}, {"Lapsed", "lapsed@example.com"}} {
		_, err := w.store.AddPerson(ctx, p.account, p.email, []string{"Main", "Rest"})
		w.must(err)
	}
	_, err = w.store.AddPerson(ctx, "Other", "other@example.com", []string{"Elsewhere"})
	w.must(err)
	w.seedProperties(ctx)
	w.seedSegments(ctx)
	w.seedKeys(ctx)
}

func (w *world) seedProperties(ctx context.Context) {
	connections := map[string]string{}
	for _, c := range []struct{ workspace, name, user string }{
		{"Main", "main", "owner"}, {"Rest", "rest", "owner"}, {"Rest", "second", "second"}, {"Rest", "gone", "gone"}, {"Elsewhere", "foreign", "second"},
	} {
		credentials, err := simUser(c.user, false).AuthorizedUserJSON()
		w.must(err)
		added, err := w.store.AddConnection(ctx, c.workspace, c.name, credentials)
		w.must(err)
		connections[c.name] = added.ID
	}
	for _, p := range []struct{ name, connection, site, display, slug string }{
		{"main", "main", "sc-domain:example.com", "Example", "main"},
		{"prefix", "rest", "https://www.example.org/shop/", "Shop", "shop"},
		{"archived", "rest", "sc-domain:archived.example", "Archived", ""},
		{"twin_a", "rest", "sc-domain:twin.example", "Twin A", "twin-a"},
		{"twin_b", "second", "sc-domain:twin.example", "Twin B", "twin-b"},
		{"large", "rest", "sc-domain:large.example", "Large", ""},
		{"empty", "rest", "sc-domain:empty.example", "Empty", ""},
		{"forbidden", "rest", "sc-domain:forbidden.example", "Forbidden", ""},
		{"disconnected", "gone", "sc-domain:gone.example", "Gone", ""},
		{"foreign", "foreign", "sc-domain:foreign.example", "Foreign", "foreign"},
	} {
		added, err := w.store.AddProperty(ctx, sqlstore.PropertySpec{Connection: connections[p.connection], Site: p.site,
			DisplayName: p.display, Slug: p.slug, PermissionLevel: "siteOwner"})
		w.must(err)
		w.properties[p.name] = added
	}
	_, err := w.store.SetArchived(ctx, w.properties["archived"].ID, true)
	w.must(err)
	_, err = w.store.SetStarred(ctx, w.properties["main"].ID, true)
	w.must(err)
}

func (w *world) seedSegments(ctx context.Context) {
	id := w.properties["main"].ID
	var terms []translate.BrandTerm
	for _, text := range []string{"example", "exact:exmaple", "regex:^ex[a-z]+ple shop"} {
		term, err := translate.ParseBrandTerm(text)
		w.must(err)
		terms = append(terms, term)
	}
	_, err := w.store.SetBrandTerms(ctx, id, terms)
	w.must(err)
	_, err = w.store.SetPageGroups(ctx, id, []translate.PageGroup{
		{Name: "Blog", Rules: []translate.PageRule{{Type: "prefix", Value: "/blog/"}, {Type: "contains", Value: "guide"}}},
		{Name: "Home", Rules: []translate.PageRule{{Type: "equals", Value: "/"}}},
		{Name: "Numbers", Rules: []translate.PageRule{{Type: "regex", Value: "[0-9]$"}}},
	})
	w.must(err)
	for _, a := range []sqlstore.Annotation{
		{Date: *dateOf(w.t, "2026-10-01"), Title: "Relaunch", Note: "New templates", Color: "green"},
		{Date: *dateOf(w.t, "2026-11-02"), Title: "Core update"},
	} {
		_, err := w.store.AddAnnotation(ctx, id, a)
		w.must(err)
	}
}

func (w *world) seedKeys(ctx context.Context) {
	all := policy.AllScopes.Names()
	past := noon().Add(-time.Hour)
	for _, k := range []struct {
		name, email string
		scopes      []string
		workspace   string
		expires     *time.Time
	}{
		{"pro", "pro@example.com", all, "", nil},
		{"agency", "agency@example.com", all, "", nil},
		{"properties_only", "agency@example.com", []string{"properties:read"}, "", nil},
		{"performance_only", "agency@example.com", []string{"performance:read"}, "", nil},
		{"indexing_only", "agency@example.com", []string{"indexing:read"}, "", nil},
		{"config_only", "agency@example.com", []string{"config:read"}, "", nil},
		{"workspace_scoped", "agency@example.com", all, "Main", nil},
		{"trial", "trial@example.com", all, "", nil},
		{"lapsed", "lapsed@example.com", all, "", nil},
		{"revoked", "pro@example.com", all, "", nil},
		{"expired", "pro@example.com", all, "", &past},
		{"other", "other@example.com", all, "", nil},
	} {
		key, hash := policy.NewKey("sara")
		added, err := w.store.CreateKey(ctx, sqlstore.KeySpec{Person: k.email, Name: k.name, Scopes: k.scopes, Workspace: k.workspace,
			Hash: hash, ExpiresAt: k.expires}, func(string) int { return 10 })
		w.must(err)
		w.keys[k.name], w.keyIDs[k.name] = key, added.ID
	}
	_, err := w.store.RevokeKey(ctx, w.keyIDs["revoked"])
	w.must(err)
}

func keySpec(email, name string, hash policy.Hash, expires *time.Time) sqlstore.KeySpec {
	return sqlstore.KeySpec{Person: email, Name: name, Scopes: policy.AllScopes.Names(), Hash: hash, ExpiresAt: expires}
}

// replica starts another server of this world, with its own memory.
func (w *world) replica(adjust ...func(*Config)) *world {
	w.t.Helper()
	other := *w
	other.startServer(adjust)
	return &other
}

func (w *world) startServer(adjust []func(*Config)) {
	listener, err := listen()
	w.must(err)
	w.base = "http://" + listener.Addr().String()
	config := Config{Store: w.store, Plans: generousPlans(), Budget: policy.NewMemoryBudget(w.now), CacheBytes: 64 << 20, KeyPrefix: "sara", BaseURL: publicURL,
		Version: "test", Log: slog.New(slog.NewJSONHandler(w.log, nil)), Access: w.log, AccessFormat: AccessJSON, AccessSample: 1, Registry: prometheus.NewRegistry(), Now: w.now}
	for _, change := range adjust {
		change(&config)
	}
	redisErrors, err := cache.RedisErrors(config.Registry)
	w.must(err)
	w.gateway, err = upstream.New(upstream.Config{BaseURL: w.upstream, TokenURL: w.upstream + "/token", Connections: w.store,
		Redis: config.Redis, RedisErrors: redisErrors, RedisPatience: config.RedisPatience, Log: config.Log, Backoff: func(int) time.Duration { return 0 },
		Now: func() time.Time { return w.now().Add(time.Duration(w.gatewayClock.Load())) }})
	w.must(err)
	config.Upstream = w.gateway
	w.server, err = newServer(config, sharedReference)
	w.must(err)
	w.document, err = theContract()
	w.must(err)
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(listener) }()
	w.admin = httptest.NewServer(w.server.Admin())
	w.t.Cleanup(func() {
		w.admin.Close()
		w.must(listener.Close())
		w.must(<-served)
		listener.end()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		w.must(w.server.Shutdown(ctx))
		w.gateway.Close()
	})
}

// publicURL is the base URL of every server that configures no other, so that they can share the API reference.
const publicURL = "http://api.example.com"

// theReference is built once for all worlds: that takes longer than to start a server.
var theReference = sync.OnceValues(func() (*reference, error) {
	return newReference(&Config{BaseURL: publicURL, DocsURL: publicURL + docs.Path, Now: noon})
})

func sharedReference(c *Config) (*reference, error) {
	if c.BaseURL == publicURL && c.DocsURL == publicURL+docs.Path {
		return theReference()
	}
	return newReference(c)
}

// generousPlans are the built-in plans with limits that no test reaches by accident.
func generousPlans() policy.Plans {
	plans := policy.DefaultPlans()
	for _, name := range []string{"pro", "agency"} {
		plan := plans[name]
		plan.RequestsPerMinutePerKey, plan.RequestsPerHour, plan.RequestsPerDay = 100_000, 100_000, 100_000
		plan.SearchConsoleCallsPerDay, plan.LiveCallsPerMinutePerProperty = 100_000, 100_000
		plans[name] = plan
	}
	return plans
}

func dateOf(t testing.TB, s string) *translate.Date {
	t.Helper()
	d, err := translate.ParseDate(s)
	if err != nil {
		t.Fatal(err)
	}
	return &d
}

// A response is an answer, read whole.
type response struct {
	status int
	header http.Header
	body   []byte
	json   map[string]any
}

// get requests a path with the named key, and checks the answer against the served OpenAPI document.
func (w *world) get(key, path string, query ...string) response {
	w.t.Helper()
	request, err := http.NewRequest(http.MethodGet, w.base+path+queryString(query), nil)
	w.must(err)
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+w.keys[key])
	}
	return w.do(request)
}

// live is get with Cache-Control: no-cache.
func (w *world) live(key, path string, query ...string) response {
	w.t.Helper()
	return w.getWith(key, path, query, "Cache-Control", "no-cache")
}

// getWith is get with headers, as name, value pairs.
func (w *world) getWith(key, path string, query []string, headers ...string) response {
	w.t.Helper()
	request, err := http.NewRequest(http.MethodGet, w.base+path+queryString(query), nil)
	w.must(err)
	request.Header.Set("Authorization", "Bearer "+w.keys[key])
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return w.do(request)
}

// queryString encodes name, value pairs.
func queryString(pairs []string) string {
	if len(pairs) == 0 {
		return ""
	}
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Add(pairs[i], pairs[i+1])
	}
	return "?" + values.Encode()
}

func (w *world) do(request *http.Request) response {
	w.t.Helper()
	answer, err := http.DefaultTransport.RoundTrip(request)
	w.must(err)
	defer func() { w.must(answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	w.must(err)
	r := response{status: answer.StatusCode, header: answer.Header, body: body}
	if err := json.Unmarshal(body, &r.json); err != nil && r.status != http.StatusNotModified {
		w.t.Fatalf("%s answers %d with no JSON object: %q", request.URL, r.status, body)
	}
	w.document.check(w.t, request, r)
	return r
}

// code is the error code of an answer, empty for a success.
func (r response) code() string {
	failure, _ := r.json["error"].(map[string]any)
	code, _ := failure["code"].(string)
	return code
}

func (r response) data() map[string]any { data, _ := r.json["data"].(map[string]any); return data }
func (r response) meta() map[string]any { meta, _ := r.json["meta"].(map[string]any); return meta }
func (r response) rows() []any          { rows, _ := r.data()["rows"].([]any); return rows }

// A syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// logged returns the log, including the buffered access log lines.
func (w *world) logged() string {
	w.server.access.flush(nil)
	return w.log.String()
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
