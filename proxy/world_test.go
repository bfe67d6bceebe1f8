package proxy

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
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
	"sara/policy/keyring"
	"sara/policy/redisconn"
	"sara/proxy/cache"
	"sara/proxy/cpubound"
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
	config   Config // of the server
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
	return newWorldWith(t, nil, &theWorlds, adjust...)
}

// newWorldWith returns a world whose owner has more sites than those of users.
func newWorldWith(t testing.TB, sites []gscsim.Site, computed *gscsim.Worlds, adjust ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, log: new(syncBuffer), clock: new(atomic.Int64), gatewayClock: new(atomic.Int64), fake: new(atomic.Pointer[http.HandlerFunc])}
	w.clock.Store(noon().UnixNano())
	w.startUpstream(sites, computed)
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

func (w *world) open() *sqlstore.Store { return w.openWith(testSecret()) }

func testSecret() []byte { return bytes.Repeat([]byte{7}, keyring.KeySize) }

// testKeys are those of a world's database and caches.
func testKeys() *keyring.Keyring {
	keys, err := keyring.New(testSecret())
	if err != nil {
		panic(err)
	}
	return keys
}

// openWith opens the database with a secret key.
func (w *world) openWith(secret []byte) *sqlstore.Store {
	w.t.Helper()
	keys, err := keyring.New(secret)
	w.must(err)
	store, err := sqlstore.Open(context.Background(), sqlstore.Config{URL: "sqlite:" + w.database, Keyring: keys, Now: w.now})
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

func (w *world) startUpstream(sites []gscsim.Site, computed *gscsim.Worlds) {
	config := gscsim.Config{Seed: 1, Now: w.now, TokenNow: time.Now, Users: users(), Worlds: computed}
	config.Users[0].Sites = append(config.Users[0].Sites, sites...)
	w.sim = gscsim.New(config)
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
	config := Config{Process: Process{Version: "test", Log: slog.New(slog.NewJSONHandler(w.log, nil)), Registry: prometheus.NewRegistry(), Now: w.now},
		Store: w.store, Admission: AdmissionConfig{Plans: generousPlans(), Budget: policy.NewMemoryBudget(w.now), KeyPrefix: "sara",
			LookupTimeout: time.Minute}, // on a busy machine, the store takes longer than a second at random
		Reports: ReportsConfig{History: noHistory{}, Anomalies: translate.Anomalies{},
			HedgeDelay: time.Hour}, // on a busy machine, stored figures would answer at random
		Cache: CacheConfig{Bytes: 64 << 20}, Capacity: Capacity{Slots: cpubound.New()}, Public: PublicConfig{BaseURL: publicURL},
		AccessLog: AccessLogConfig{Out: w.log, Format: AccessJSON, Sample: 1}}
	for _, change := range adjust {
		change(&config)
	}
	var redis redisconn.Client
	if config.Cache.Rows != nil {
		redis = config.Cache.Rows.Client()
	}
	redisErrors, err := cache.RedisErrors(config.Registry)
	w.must(err)
	w.gateway, err = upstream.New(upstream.Config{BaseURL: w.upstream, TokenURL: w.upstream + "/token", Connections: w.store,
		Redis: redis, Keyring: config.Cache.Keyring, RedisErrors: redisErrors, RedisPatience: config.Cache.RedisPatience, Slots: config.Capacity.Slots,
		Log: config.Log, Backoff: func(int) time.Duration { return 0 },
		Now: func() time.Time { return w.now().Add(time.Duration(w.gatewayClock.Load())) }})
	w.must(err)
	config.Reports.Upstream = w.gateway
	w.config = config
	w.server, err = newServer(config, sharedReference)
	w.must(err)
	w.server.edge.ReadTimeout = 10 * time.Minute // with the edge's own, a busy machine closes connections whose requests are on their way
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
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		w.must(w.server.Shutdown(ctx))
		w.gateway.Close()
	})
}

// publicURL is the base URL of every server that configures no other, so that they can share the API reference.
const publicURL = "http://api.example.com"

// theReference is built once for all worlds: that takes longer than to start a server.
var theReference = sync.OnceValues(func() (*reference, error) {
	return newReference(PublicConfig{BaseURL: publicURL, DocsURL: publicURL + docs.Path}, noon())
})

func sharedReference(c PublicConfig, now time.Time) (*reference, error) {
	if c.BaseURL == publicURL && c.DocsURL == publicURL+docs.Path {
		return theReference()
	}
	return newReference(c, now)
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

// logged returns the log, the lines of the access log included.
func (w *world) logged() string { return w.log.String() }

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
