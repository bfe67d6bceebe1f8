package proxy

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"sara/policy"
	"sara/policy/redisconn"
	"sara/policy/redistest"
	"sara/proxy/cache"
	"sara/proxy/redisrows"
	"sara/proxy/upstream/gscsim"
)

// redisOf returns a client of a private Redis with the timeouts of a server, which a busy machine exceeds. It ends with the test.
func redisOf(t testing.TB, server *redistest.Server) redisconn.Client {
	t.Helper()
	client, err := redisconn.Open(server.URL(), redisconn.StepTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// over makes a server share its cache over Redis, with a timeout that a busy machine does not exceed.
func over(client redisconn.Client) func(*Config) {
	return func(c *Config) {
		hastilyOver(client)(c)
		c.Cache.RedisPatience = 20 * time.Second
	}
}

// hastilyOver is over with the default timeout.
func hastilyOver(client redisconn.Client) func(*Config) {
	return func(c *Config) {
		rows, err := redisrows.New(redisrows.Config{Rows: client, Lifetime: cache.MaxStale})
		if err != nil {
			panic(err)
		}
		c.Cache.Rows, c.Cache.Keyring = rows, testKeys()
	}
}

// inFlight is the number of requests that a server is answering. To request /metrics for it would take longer than to answer them.
func (w *world) inFlight() int {
	var gauge dto.Metric
	w.must(w.server.telemetry.metrics.inFlight.Write(&gauge))
	return int(gauge.GetGauge().GetValue())
}

// storm sends the same request many times at once, in turn to each of the worlds, and returns the answers by status. The
// upstream answers once all of them are in flight, however slow the machine is.
func storm(t *testing.T, requests int, path string, worlds ...*world) map[int]int {
	t.Helper()
	worlds[0].answerWith(func(rw http.ResponseWriter, r *http.Request) {
		worlds[0].await(t, "all requests in flight", func() bool {
			n := 0
			for _, w := range worlds {
				n += w.inFlight()
			}
			return n >= requests
		})
		worlds[0].sim.ServeHTTP(rw, r)
	})
	defer worlds[0].answerWith(nil)
	var mu sync.Mutex
	var done sync.WaitGroup
	statuses := map[int]int{}
	for i := range requests {
		done.Go(func() {
			w := worlds[i%len(worlds)]
			answer, _ := w.raw(path)
			mu.Lock()
			defer mu.Unlock()
			statuses[answer.StatusCode]++
		})
	}
	done.Wait()
	return statuses
}

const slowUpstream = 500 // milliseconds

func TestSummary200FortyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(gscsim.Faults{LatencyMS: slowUpstream / 5})
	var statuses map[int]int
	calls := w.calls(func() { statuses = storm(t, 40, w.path("main", "/summary"), w) })
	if calls != 1 || statuses[http.StatusOK] != 40 {
		t.Errorf("40 requests at once make %d calls and are answered %v", calls, statuses)
	}
}

// The upstream fails: there is one series of attempts, not forty, and all requests get its error.
func TestSummary503FortyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults(gscsim.Faults{LatencyMS: slowUpstream / 5, Status: 503})
	var statuses map[int]int
	calls := w.calls(func() { statuses = storm(t, 40, w.path("main", "/summary"), w) })
	if calls > 3 || statuses[http.StatusServiceUnavailable] != 40 {
		t.Errorf("40 requests at once make %d calls and are answered %v", calls, statuses)
	}
}

func TestSummary200FortyAtOnceOverReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("takes over a second")
	}
	t.Parallel()
	server := redistest.Single(t)
	w := newWorld(t, over(server.Client()))
	other := w.replica(over(server.Client()))
	w.faults(gscsim.Faults{LatencyMS: slowUpstream / 5})
	for round := range 10 {
		path := w.path("main", fmt.Sprintf("/queries?start_date=2026-11-%02d&end_date=2026-11-19", round+1))
		var statuses map[int]int
		calls := w.calls(func() { statuses = storm(t, 40, path, w, other) })
		if calls != 1 || statuses[http.StatusOK] != 40 {
			t.Errorf("round %d: 20 and 20 requests at once make %d calls and are answered %v", round, calls, statuses)
		}
	}
	w.faults(gscsim.Faults{LatencyMS: slowUpstream / 5, Status: 503})
	var statuses map[int]int
	calls := w.calls(func() { statuses = storm(t, 40, w.path("main", "/pages"), w, other) })
	if calls > 3 || statuses[http.StatusServiceUnavailable] != 40 {
		t.Errorf("with the upstream failing, 20 and 20 requests make %d calls and are answered %v", calls, statuses)
	}
	w.faults(gscsim.Faults{})
	for _, w := range []*world{w, other} {
		w.wantCacheStatus(t, "hit", 0, w.path("main", "/queries?start_date=2026-11-01&end_date=2026-11-19"))
	}
}

// The client whose request leads the fill disconnects: the others, on both replicas, still get their answers.
func TestSummary200FirstClientGone(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w := newWorld(t, over(server.Client()))
	other := w.replica(over(server.Client()))
	w.faults(gscsim.Faults{LatencyMS: slowUpstream})
	var statuses map[int]int
	calls := w.calls(func() {
		before := w.sim.Calls().SearchAnalytics
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.base, "http://"))
		w.must(err)
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: sara\r\nAuthorization: Bearer %s\r\n\r\n", w.path("main", "/summary"), w.keys["pro"])
		w.must(err)
		w.awaitCalls(t, before+1)
		<-time.After(200 * time.Millisecond) // it gives up after this long
		w.must(conn.Close())
		statuses = storm(t, 39, w.path("main", "/summary"), w, other)
	})
	if calls != 1 || statuses[http.StatusOK] != 39 {
		t.Errorf("%d calls, the others are answered %v", calls, statuses)
	}
}

// A leader without budget is refused alone: another request leads the fill.
func TestSummary429LeaderAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, limited(func(p *policy.Plan) { p.SearchConsoleCallsPerDay = 1 }))
	w.get("pro", w.path("prefix", "/summary")).ok(t)
	w.faults(gscsim.Faults{LatencyMS: slowUpstream / 5})
	keys := []string{"pro", "agency", "performance_only", "pro"}
	answers := make([]response, len(keys))
	var done sync.WaitGroup
	for i, key := range keys {
		done.Go(func() {
			request, _ := http.NewRequest(http.MethodGet, w.base+w.path("main", "/summary"), nil)
			request.Header.Set("Authorization", "Bearer "+w.keys[key])
			answers[i] = w.do(request)
		})
	}
	done.Wait()
	for i, key := range keys {
		switch r := answers[i]; {
		case r.status == http.StatusOK: // the pro key too, if it came during an agency's call
		case key == "pro":
			r.want(t, http.StatusTooManyRequests, policy.CodeQuotaExceeded)
		default:
			t.Errorf("%s is answered %d: %s", key, r.status, r.body)
		}
	}
}

// One replica's fill serves the other, and the cooldown of a site applies to both.
func TestQueries429CooldownOnEveryReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w := newWorld(t, over(server.Client()))
	other := w.replica(over(server.Client()))
	w.wantCacheStatus(t, "miss", 1, w.path("main", "/queries"))
	w.await(t, "the shared copy", func() bool { return other.get("pro", w.path("main", "/queries")).ok(t).meta()["cache"] == "hit" })
	w.advance(freshAtAnchor)
	w.faults(gscsim.Faults{Reason: "quotaExceeded"})
	w.get("pro", w.path("main", "/pages")).want(t, http.StatusTooManyRequests, policy.CodeUpstreamQuota, "900 seconds")
	w.must(w.sim.SetFaults(gscsim.Faults{}))
	// Until its lease ends, the refusal is the answer of a fill that the other replica may join, as of the time of that fill.
	w.await(t, "the end of the fill", func() bool {
		leases, err := server.Client().Keys(t.Context(), "sara:c:*:lease").Result()
		return err == nil && len(leases) == 0
	})
	w.advance(5 * time.Minute)
	calls := w.calls(func() {
		for _, replica := range []*world{w, other} {
			for _, endpoint := range []string{"/pages", "/countries"} {
				r := replica.get("pro", w.path("main", endpoint))
				r.want(t, http.StatusTooManyRequests, policy.CodeUpstreamQuota, "600 seconds")
				if r.header.Get("Retry-After") != "600" {
					t.Errorf("Retry-After is %s", r.header.Get("Retry-After"))
				}
			}
			r := replica.live("pro", w.path("main", "/queries")).ok(t)
			if r.meta()["stale_reason"] == nil || r.meta()["source"] != "stored" {
				t.Errorf("a copy during the cooldown: meta is %v", r.meta())
			}
		}
	})
	if calls != 0 {
		t.Errorf("%d calls during the cooldown", calls)
	}
	w.get("pro", w.path("prefix", "/pages")).ok(t) // another site
	w.wantUsage(t, "pro", 7, 7, 3)
	w.advance(10 * time.Minute)
	w.get("pro", w.path("main", "/pages")).ok(t)
}

// While Redis is down, requests miss the cache; once it is back, it is used again.
func TestSummary200WithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w := newWorld(t, hastilyOver(redisOf(t, server)))
	other := w.replica(hastilyOver(redisOf(t, server)))
	w.wantCacheStatus(t, "miss", 1, w.path("main", "/summary"))
	server.Kill()
	w.wantCacheStatus(t, "hit", 0, w.path("main", "/summary"))
	w.wantCacheStatus(t, "miss", 1, w.path("main", "/devices"))
	other.wantCacheStatus(t, "miss", 1, w.path("main", "/devices"))
	if n := other.metric("sara_cache_redis_errors_total"); n != 2 {
		t.Errorf("%v errors of Redis are counted, want that of the cache's step and that of the cooldown's", n)
	}
	server.Start()
	w.await(t, "the shared copy", func() bool {
		w.advance(freshAtAnchor) // Redis is tried again after a second
		w.live("pro", w.path("main", "/countries")).ok(t)
		return other.get("pro", w.path("main", "/countries")).ok(t).meta()["cache"] == "hit"
	})
}

// A foreign, truncated or altered value in Redis is a miss.
func TestSummary200PoisonedRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	client := server.Client()
	w := newWorld(t, over(client))
	w.get("pro", w.path("main", "/devices")).ok(t)
	ctx := context.Background()
	var keys []string
	copies := func() int {
		keys = slices.DeleteFunc(client.Keys(ctx, "sara:c:*").Val(), func(key string) bool { return strings.HasSuffix(key, ":lease") })
		return len(keys)
	}
	w.await(t, "the shared copy", func() bool { return copies() == 1 })
	value, err := client.Get(ctx, keys[0]).Bytes()
	w.must(err)
	flipped := append([]byte(nil), value...)
	flipped[len(flipped)/2] ^= 1
	for name, poison := range map[string][]byte{"nothing": {}, "another text": []byte("hello"), "half": value[:len(value)/2], "a bit": flipped,
		"more": append(value[:len(value):len(value)], 0)} {
		w.must(client.Set(ctx, keys[0], poison, time.Hour).Err())
		other := w.replica(over(client))
		r := other.wantCacheStatus(t, "miss", 1, w.path("main", "/devices"))
		if len(r.rows()) != 3 {
			t.Errorf("%s: answers %s", name, r.body)
		}
		w.await(t, "the renewed copy", func() bool { return client.Get(ctx, keys[0]).Val() != string(poison) })
	}
	// A whole copy under another property's key is not that property's.
	w.get("pro", w.path("prefix", "/devices")).ok(t)
	w.await(t, "the second copy", func() bool { return copies() == 2 })
	for _, key := range keys {
		w.must(client.Set(ctx, key, value, time.Hour).Err())
	}
	other := w.replica(over(client))
	other.wantCacheStatus(t, "hit", 0, w.path("main", "/devices"))
	other.wantCacheStatus(t, "miss", 1, w.path("prefix", "/devices"))
}

// Who can write to Redis moves copies about and alters them: a property never gets the rows of another, nor other figures than its
// own.
func TestSummary200ForeignRowsInRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w, client := newWorld(t, over(server.Client())), server.Client()
	// filled asks for the summary of a property, and returns the answer and the Redis key of the copy.
	filled := func(property string) (answer any, key string) {
		had, err := client.Keys(t.Context(), "sara:c:*").Result()
		w.must(err)
		answer = w.wantCacheStatus(t, "miss", 1, w.path(property, "/summary")).data()
		w.await(t, "the copy in Redis", func() bool {
			keys, err := client.Keys(t.Context(), "sara:c:*").Result()
			w.must(err)
			keys = slices.DeleteFunc(keys, func(k string) bool { return slices.Contains(had, k) })
			if len(keys) == 1 { // without a lease
				key = keys[0]
			}
			return len(keys) == 1 && !strings.HasSuffix(key, ":lease")
		})
		return answer, key
	}
	want, own := filled("main")
	_, foreign := filled("prefix")
	planted, err := client.Get(t.Context(), foreign).Bytes()
	w.must(err)
	altered, err := client.Get(t.Context(), own).Bytes()
	w.must(err)
	altered[len(altered)/2] ^= 1
	for name, value := range map[string][]byte{"foreign rows": planted, "an altered figure": altered} {
		w.must(client.Set(t.Context(), own, value, time.Hour).Err())
		other := w.replica(over(server.Client()))
		answer := other.wantCacheStatus(t, "miss", 1, w.path("main", "/summary")).data()
		if !reflect.DeepEqual(answer, want) {
			t.Errorf("%s: the answer is %v, want %v", name, answer, want)
		}
		if other.metric("sara_cache_discarded_total") == 0 {
			t.Errorf("%s: the copy is not counted", name)
		}
		w.await(t, "a new copy", func() bool { return client.Get(t.Context(), own).Val() != string(value) })
	}
}

// The copy of the series that comes along from Redis decides before a call is made: neither a call nor a day is spent on a range that
// the answer cannot use.
func TestQueriesAndTimeseries200KnowTheCopyOfAnotherReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w := newWorld(t, over(server.Client()))
	other, third := w.replica(over(server.Client())), w.replica(over(server.Client()))
	w.must(w.sim.SetPublished(mainSite, "2026-11-18"))
	w.get("pro", w.path("main", "/timeseries")).ok(t)
	w.await(t, "the shared series", func() bool {
		copies, err := server.Client().Keys(t.Context(), "sara:c:*").Result()
		return err == nil && len(copies) == 1 && !strings.HasSuffix(copies[0], ":lease")
	})
	w.must(w.sim.SetPublished(mainSite, "2026-11-19"))
	w.advance(time.Minute)
	r := other.wantCacheStatus(t, "miss", 1, w.path("main", "/queries"), "date_range", "last_7d", "limit", "1000")
	wantNote(t, r, lateDay)
	wantRows(t, "queries", r.rows(), "key", w.oracle().ask(t, mainSite, "query", "2026-11-13", "2026-11-18", 1000))
	r = third.wantCacheStatus(t, "miss", 1, w.path("main", "/timeseries"), "date_range", "last_7d", "filters", filtersOf("query", "contains", "e"))
	wantNote(t, r, lateDay)
}

// A replica whose own copy of the series is from before the anchor moved takes that of another replica: it reads the days that were
// published in between, too.
func TestQueries200PublishedSinceYesterdaysCopy(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w := late(t, "2026-11-18", over(server.Client()))
	other := w.replica(over(server.Client()))
	wantNote(t, other.get("pro", w.path("main", "/timeseries"), "date_range", "last_7d").ok(t), lateDay)
	w.advance(13 * time.Hour) // over midnight
	w.must(w.sim.SetPublished(mainSite, "2026-11-19"))
	const lateToday = "Search Console has not published 2026-11-20 yet."
	wantNote(t, w.get("pro", w.path("main", "/timeseries"), "date_range", "last_7d").ok(t), lateToday)
	w.await(t, "the shared series of both days", func() bool {
		copies, err := server.Client().Keys(t.Context(), "sara:c:*").Result()
		return err == nil && len(copies) == 2 && !slices.ContainsFunc(copies, func(key string) bool { return strings.HasSuffix(key, ":lease") })
	})
	r := other.wantCacheStatus(t, "miss", 1, w.path("main", "/queries"), "date_range", "last_7d", "limit", "1000")
	wantNote(t, r, lateToday)
	wantRows(t, "queries", r.rows(), "key", w.oracle().ask(t, mainSite, "query", "2026-11-14", "2026-11-19", 1000))
}

// A copy of the series that is too old does not hide that of another replica: the data window is known without a call.
func TestProperty200DataWindowOfCopyOfAnotherReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w := late(t, "2026-11-18", over(server.Client()))
	other := w.replica(over(server.Client()))
	other.get("pro", w.path("main", "/timeseries")).ok(t)
	w.advance(25 * time.Hour)
	w.must(w.sim.SetPublished(mainSite, "2026-11-19"))
	w.get("pro", w.path("main", "/timeseries")).ok(t)
	w.await(t, "the shared series of both days", func() bool {
		copies, err := server.Client().Keys(t.Context(), "sara:c:*").Result()
		return err == nil && len(copies) == 2 && !slices.ContainsFunc(copies, func(key string) bool { return strings.HasSuffix(key, ":lease") })
	})
	window := other.get("pro", w.path("main", "")).ok(t).data()["data_window"].(map[string]any)
	if latest := window["latest_data_date"]; latest != "2026-11-19" {
		t.Errorf("the latest date with data is %v, want 2026-11-19, which the copy of the other replica shows", latest)
	}
}

// Rows and a copy of the series that come from Redis together may contradict each other: the rows may be newer, or of a plan with an older copy.
// Then they are read again: the answer has the days that the copy shows as published, and no others.
func TestTables200RowsFromRedisContradictTheSeries(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w := newWorld(t, over(server.Client()))
	other, third := w.replica(over(server.Client())), w.replica(over(server.Client()))
	copies := func() map[string]string {
		values := map[string]string{}
		for _, key := range server.Client().Keys(t.Context(), "sara:c:*").Val() {
			if !strings.HasSuffix(key, ":lease") {
				values[key] = server.Client().Get(t.Context(), key).Val()
			}
		}
		return values
	}
	week := []string{"date_range", "last_7d"}
	// miss makes a call, and waits for the copy in Redis.
	miss := func(w *world, endpoint string) response {
		before := copies()
		r := w.wantCacheStatus(t, "miss", 1, w.path("main", endpoint), week...)
		w.await(t, "the copy in Redis", func() bool { return !maps.Equal(copies(), before) })
		return r
	}
	wantDays := func(r response, dimension, first, last string) {
		t.Helper()
		wantRows(t, dimension, r.rows(), "key", w.oracle().ask(t, mainSite, dimension, first, last, len(r.rows())))
	}

	w.advance(5 * time.Minute)
	wantDays(miss(other, "/pages"), "page", "2026-11-13", "2026-11-19")
	w.advance(-5 * time.Minute)
	w.must(w.sim.SetPublished(mainSite, "2026-11-18"))
	miss(w, "/timeseries")
	w.must(w.sim.SetPublished(mainSite, "2026-11-19"))
	w.advance(6 * time.Minute)
	r := miss(third, "/pages")
	wantNote(t, r, lateDay)
	wantDays(r, "page", "2026-11-13", "2026-11-18")

	other.wantCacheStatus(t, "hit", 0, w.path("main", "/timeseries"), week...)
	w.advance(13 * time.Hour) // over midnight
	wantDays(miss(third, "/countries"), "country", "2026-11-14", "2026-11-18")
	miss(w, "/timeseries")
	r = miss(other, "/countries")
	wantNote(t, r, "Search Console has not published 2026-11-20 yet.")
	wantDays(r, "country", "2026-11-14", "2026-11-19")
}
