//go:build !race

package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/valyala/fasthttp"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/policy/redisconn"
	"sara/policy/redistest"
	"sara/translate"
)

// A cost counts what one request causes: allocations in this process, including those of the Redis client and of the simulated Search
// Console; their bytes, which bound the copies of rows and answers that are made on the way; commands to Redis, without those that scripts
// call; and calls of Search Console.
type cost struct{ allocations, bytes, commands, calls int64 }

// most returns the higher of each.
func (c cost) most(other cost) cost {
	return cost{max(c.allocations, other.allocations), max(c.bytes, other.bytes), max(c.commands, other.commands), max(c.calls, other.calls)}
}

func (c cost) least(other cost) cost {
	return cost{min(c.allocations, other.allocations), min(c.bytes, other.bytes), min(c.commands, other.commands), min(c.calls, other.calls)}
}

// A meter is a world, with the budgets and the cache in one Redis, that counts.
type meter struct {
	*world
	other    *world // a replica
	control  redisconn.Client
	commands atomic.Int64
	called   atomic.Int64
}

func (m *meter) DialHook(next redis.DialHook) redis.DialHook { return next }
func (m *meter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		m.count(cmd)
		return next(ctx, cmd)
	}
}
func (m *meter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		m.count(commands...)
		return next(ctx, commands)
	}
}

// count leaves out what belongs to no request: the handshakes of new connections, and what replicas do at times, which is to announce
// themselves, to watch the rows in Redis, and to renew the lease of a fill, every half a second that it lasts on a busy machine.
func (m *meter) count(commands ...redis.Cmder) {
	for _, cmd := range commands {
		switch cmd.Name() {
		case "hello", "client", "info", "hget":
			continue
		}
		if args := cmd.Args(); len(args) > 1 && args[1] == "sara:replicas" || isRenewal(args) {
			continue
		}
		m.commands.Add(1)
	}
}

// isRenewal reports whether a command extends a lease.
func isRenewal(args []any) bool {
	if len(args) < 4 || args[0] != "eval" {
		return false
	}
	script, _ := args[1].(string)
	key, _ := args[3].(string)
	return strings.Contains(script, "'pexpire'") && strings.HasSuffix(key, ":lease")
}

// newMeter returns a world whose property prefix has archived days up to its live window. Search Console answers every question with
// 1,001 rows.
func newMeter(t *testing.T) *meter {
	t.Helper()
	server := redistest.Single(t)
	m := &meter{control: server.Client()}
	client := server.Client()
	client.AddHook(m)
	history, keeping := kept(t)
	adjust := []func(*Config){over(client), keeping, func(c *Config) {
		countedIn(t, client)(c)
		c.AccessLog.Out = io.Discard
		refused := c.Admission.Plans["agency"]
		refused.RequestsPerDay = 1
		c.Admission.Plans["agency"] = refused
	}}
	m.world = newWorld(t, adjust...)
	m.other = m.replica(adjust...)
	m.chronicle(history, "prefix", "https://www.example.org/shop/").keep(t, "2025-07-01", "2025-07-19")
	rows := make([]string, 1001)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"keys":["query %d"],"clicks":%d,"impressions":5000,"ctr":0.1,"position":7.25}`, i, 2000-i)
	}
	body := `{"rows":[` + strings.Join(rows, ",") + `],"responseAggregationType":"byProperty"}`
	m.answerWith(func(rw http.ResponseWriter, _ *http.Request) {
		m.called.Add(1)
		mustWrite(rw, body)
	})
	return m
}

// of returns the least cost of some requests, so that what happens beside them does not count. A number makes them differ. What a fill
// does after its answer counts.
func (m *meter) of(server *world, status int, fills bool, request func(n int) *fasthttp.RequestCtx) cost {
	m.t.Helper()
	const requests = 6
	endGoroutines()
	var least cost
	ctx := request(0) // reused, as the server does
	for n := range requests {
		request(n).Request.CopyTo(&ctx.Request)
		ctx.Response.Reset()
		var before, after runtime.MemStats
		commands, calls := m.commands.Load(), m.called.Load()
		runtime.ReadMemStats(&before)
		server.server.edge.Handler(ctx)
		if fills {
			m.settle()
		}
		runtime.ReadMemStats(&after)
		if ctx.Response.StatusCode() != status {
			m.t.Fatalf("answers %d %s", ctx.Response.StatusCode(), ctx.Response.Body())
		}
		this := cost{int64(after.Mallocs - before.Mallocs), int64(after.TotalAlloc - before.TotalAlloc),
			m.commands.Load() - commands, m.called.Load() - calls}
		if n == 0 {
			least = this
		}
		least = least.least(this)
	}
	return least
}

// endGoroutines leaves many goroutines that have ended. The runtime uses their structures again; where it finds none, a request that starts
// goroutines counts the memory of new ones, which depends on the processors that its predecessors ran on.
func endGoroutines() {
	const many = 1000 // a processor keeps 64, and passes on the others
	var all sync.WaitGroup
	begin := make(chan struct{})
	for range many {
		all.Go(func() { <-begin })
	}
	close(begin)
	all.Wait()
}

// settle waits until no fill is under way.
func (m *meter) settle() {
	m.t.Helper()
	m.await(m.t.(*testing.T), "the end of the fill", func() bool {
		leases, err := m.control.Keys(m.t.Context(), "sara:c:*:lease").Result()
		return err == nil && len(leases) == 0
	})
}

// The counts of every path of a request, which do not depend on the machine. A miss comes before the answers from Redis, which are
// those of the same questions.
func TestEachPathAllocatesAndCallsLittle(t *testing.T) {
	m := newMeter(t)
	authorized := func(key, path string) *fasthttp.RequestCtx {
		return m.request(path, fasthttp.HeaderAuthorization, "Bearer "+key)
	}
	ranged := func(property string, limit int, first, last string) func(int) *fasthttp.RequestCtx {
		start := *dateOf(t, first)
		return func(n int) *fasthttp.RequestCtx {
			return m.request(m.path(property, fmt.Sprintf("/queries?limit=%d&start_date=%v&end_date=%s", limit, start+translate.Date(n), last)))
		}
	}
	m.await(t, "the end of the agency's day", func() bool { return m.get("agency", "/v1/me").status == http.StatusTooManyRequests })
	hit := m.path("main", "/queries?limit=1000&start_date=2026-10-01&end_date=2026-10-31")
	for _, test := range []struct {
		name    string
		server  *world
		request func(n int) *fasthttp.RequestCtx
		status  int
		most    cost
	}{
		{"a miss", m.world, ranged("main", 1000, "2026-10-01", "2026-10-31"), http.StatusOK, cost{390, 420_000, 5, 1}},
		{"a hit", m.world, func(int) *fasthttp.RequestCtx { return m.request(hit) }, http.StatusOK, cost{28, 1400, 1, 0}},
		{"a hit in Redis", m.other, ranged("main", 1000, "2026-10-01", "2026-10-31"), http.StatusOK, cost{103, 213_000, 2, 0}},
		{"a miss of a page", m.world, ranged("main", 62, "2026-09-01", "2026-09-30"), http.StatusOK, cost{380, 292_000, 5, 1}},
		{"a page from Redis", m.other, ranged("main", 62, "2026-09-01", "2026-09-30"), http.StatusOK, cost{99, 27_500, 2, 0}},
		{"stored", m.world, ranged("prefix", 1000, "2025-07-02", "2025-07-18"), http.StatusOK, cost{62, 45_000, 1, 0}},
		{"hybrid", m.world, ranged("prefix", 1000, "2025-07-02", "2025-07-25"), http.StatusOK, cost{76, 209_000, 1, 0}},
		{"a stored page", m.world, ranged("prefix", 5, "2025-07-01", "2025-07-18"), http.StatusOK, cost{62, 7300, 1, 0}},
		{"a hybrid page", m.world, ranged("prefix", 62, "2025-07-01", "2025-07-25"), http.StatusOK, cost{76, 32_000, 1, 0}},
		{"nonsense for a key", m.world, func(int) *fasthttp.RequestCtx { return authorized(m.keys["pro"]+"X", "/v1/me") },
			http.StatusUnauthorized, cost{5, 1200, 0, 0}},
		{"an unknown key", m.world, func(int) *fasthttp.RequestCtx {
			key, _ := policy.NewKey("sara")
			return authorized(key, "/v1/me")
		}, http.StatusUnauthorized, cost{92, 6800, 0, 0}},
		{"a spent day", m.world, func(int) *fasthttp.RequestCtx { return authorized(m.keys["agency"], "/v1/me") },
			http.StatusTooManyRequests, cost{16, 2200, 0, 0}},
	} {
		m.run(test.name, func(t *testing.T) {
			got := m.of(test.server, test.status, test.most.calls > 0, test.request)
			t.Logf("%+v", got)
			if got.most(test.most) != test.most {
				t.Errorf("costs %+v, want at most %+v", got, test.most)
			}
		})
	}
}

// A portfolio takes one command for its budgets and, on a replica that has no copies, one for the series of each property.
func TestPortfolioTakesOneRedisCommandAProperty(t *testing.T) {
	m := newMeter(t)
	m.answerWith(nil)
	for _, site := range []string{"sc-domain:twin.example", "sc-domain:archived.example", "https://www.example.org/shop/"} {
		_, err := m.store.AddProperty(t.Context(), sqlstore.PropertySpec{Connection: m.properties["main"].Connection.ID, Site: site,
			PermissionLevel: "siteOwner"})
		m.must(err)
	}
	key, hash := policy.NewKey("sara")
	_, err := m.store.CreateKey(t.Context(), sqlstore.KeySpec{Person: "pro@example.com", Name: "portfolio", Scopes: policy.AllScopes.Names(),
		Workspace: "Main", Hash: hash}, func(string) int { return 10 })
	m.must(err)
	m.keys["portfolio"] = key
	const properties = 4
	commands := func(server *world) int64 {
		before := m.commands.Load()
		if codes := server.portfolio("portfolio", "compare", "previous_period").codes(); codes[""] != properties {
			t.Fatalf("answers %v", codes)
		}
		m.settle()
		return m.commands.Load() - before
	}
	for _, server := range []*world{m.world, m.other} { // loads the scripts, which is not counted
		server.get("portfolio", server.path("main", "/devices")).ok(t)
	}
	m.settle()
	first := commands(m.world)
	again, shared := commands(m.world), commands(m.other)
	t.Logf("%d commands for live calls, %d from memory, %d from Redis", first, again, shared)
	if first > 1+5*properties || again != 1 || shared > 1+properties {
		t.Errorf("%d commands for live calls, %d from memory, %d from Redis", first, again, shared)
	}
}
