package redisrows

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/redisconn"
	"sara/policy/redistest"
	"sara/proxy/redisinfo"
)

// fill writes values that are not rows, of a kilobyte each.
func fill(t *testing.T, client redisconn.Client, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		if err := client.Set(t.Context(), fmt.Sprint("counter ", n), strings.Repeat("x", 1000), 0).Err(); err != nil {
			t.Fatalf("value %d: %v", n, err)
		}
	}
}

func usedPercent(t *testing.T, client redisconn.Client) int64 {
	t.Helper()
	servers, err := redisinfo.Read(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	used, most, _ := servers[0].Memory()
	return 100 * used / most
}

// Rows never have more than half of a Redis that has the counters too, and leave what other data needs.
func TestRowsAreShedBeforeMemoryIsFull(t *testing.T) {
	t.Parallel()
	client := redistest.Single(t, "--maxmemory", "16mb", "--maxmemory-policy", "noeviction").Client()
	s, registry := newStore(t, Config{Rows: client})
	flood := func(from int) {
		t.Helper()
		for n := from; n < from+300; n++ {
			s.put(t, fmt.Sprint("account ", n%8), rowKey(n), 100<<10)
		}
	}
	flood(0)
	if bytes := value(t, registry, "rows_bytes", ""); bytes > 8<<20 || bytes < 6<<20 {
		t.Errorf("%v bytes of rows in 16 MiB", bytes)
	}
	fill(t, client, 0, 6000)
	if err := s.Relieve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if percent := usedPercent(t, client); percent > fullPercent || percent < fullPercent-10 {
		t.Errorf("%d %% of the memory is used", percent)
	}
	flood(300)
	if percent := usedPercent(t, client); percent > fullPercent+1 {
		t.Errorf("after more rows, %d %% of the memory is used", percent)
	}
	for n := 6000; n < 15_000 && value(t, registry, "rows_limit_bytes", "") > 0; n += 400 {
		fill(t, client, n, n+400)
		if err := s.Relieve(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if bytes, bound := value(t, registry, "rows_bytes", ""), value(t, registry, "rows_limit_bytes", ""); bytes != 0 || bound != 0 {
		t.Errorf("%v bytes of rows, the bound is %v: the memory is full without them", bytes, bound)
	}
	flood(600)
	if n := value(t, registry, "rows_refused_total", ""); n < 300 {
		t.Errorf("%v rows were refused", n)
	}
	client.FlushDB(t.Context())
	if err := s.Relieve(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.put(t, "a", rowKey(1), 1000)
	wantPresent(t, client, []string{rowKey(1)}, rowKey(1))
}

// In a cluster, the master that is full makes rows go, wherever the oldest ones are.
func TestRowsAreShedForOneFullMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	for _, node := range cluster.Nodes {
		if err := node.Client().ConfigSet(t.Context(), "maxmemory", "16mb").Err(); err != nil {
			t.Fatal(err)
		}
	}
	client := cluster.Client()
	s, _ := newStore(t, Config{Rows: client})
	for n := range 400 {
		s.put(t, fmt.Sprint("account ", n%8), rowKey(n), 100<<10)
	}
	for n := range 8000 { // on one master
		if n%500 == 0 {
			if err := s.Relieve(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.Set(t.Context(), fmt.Sprintf("{one slot} %d", n), strings.Repeat("x", 1000), 0).Err(); err != nil {
			t.Fatalf("value %d: %v", n, err)
		}
	}
	if err := s.Relieve(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, node := range cluster.Nodes {
		if percent := usedPercent(t, node.Client()); percent > fullPercent {
			t.Errorf("%d %% of the memory of a master is used", percent)
		}
	}
	if held := s.sums(t)["all"]; held == "0" {
		t.Error("no rows are left, though they fit")
	}
}

// A Redis that is full although it is not the rows' fault refuses their writes too; deleting them still works.
func TestTrimWorksOnFullRedis(t *testing.T) {
	t.Parallel()
	client := redistest.Single(t, "--maxmemory", "16mb", "--maxmemory-policy", "noeviction").Client()
	s, registry := newStore(t, Config{Rows: client})
	for n := range 60 {
		s.put(t, fmt.Sprint("account ", n%8), rowKey(n), 100<<10)
	}
	var err error
	for n := 0; err == nil; n++ {
		err = client.Set(t.Context(), fmt.Sprint("counter ", n), strings.Repeat("x", 1000), 0).Err()
	}
	if !redisconn.IsFull(err) {
		t.Fatal(err)
	}
	if err := s.Publish(t.Context(), rowOf("a", rowKey(99), 1000)); !redisconn.IsFull(err) {
		t.Errorf("a row in a full Redis: %v", err)
	}
	before := value(t, registry, "rows_bytes", "")
	if err := s.Relieve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := value(t, registry, "rows_bytes", ""); now >= before || usedPercent(t, client) > fullPercent {
		t.Errorf("%v bytes of rows became %v, %d %% of the memory is used", before, now, usedPercent(t, client))
	}
	fill(t, client, 100_000, 100_100)
}

// INFO may be forbidden, as on managed services. That is unknown, and not fine; the configured bound holds.
func TestInfoForbidden(t *testing.T) {
	server := redistest.Single(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")
	if err := server.Client().Do(t.Context(), "acl", "setuser", "sara", "on", "nopass", "~*", "&*", "+@all", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	client := redistest.Open(t, "redis://sara:x@"+server.Addr())
	s, registry := newStore(t, Config{Rows: client, Bytes: 64 << 10})
	for n := range 20 {
		s.put(t, "a", rowKey(n), kb8)
	}
	if got := present(t, client, keys(20)...); len(got) != 2 {
		t.Errorf("Redis has %d rows, want the account's share", len(got))
	}
	for name, label := range map[string]string{"eviction_policy_ok": "", "evicted_keys": "counters", "memory_bytes": "counters"} {
		if v := value(t, registry, name, label); v != -1 {
			t.Errorf("%s is %v, but it is unknown", name, v)
		}
	}
	if s.Away() {
		t.Error("a Redis that forbids INFO counts as down")
	}
}

func TestEvictionPolicyOfCountersIsShown(t *testing.T) {
	rows := redistest.Single(t, "--maxmemory", "8mb", "--maxmemory-policy", "allkeys-lru").Client()
	counters := redistest.Single(t, "--maxmemory", "8mb").Client()
	s, registry := newStore(t, Config{Rows: rows, Counters: counters})
	for policy, want := range map[string]float64{"noeviction": 1, "allkeys-lru": 0, "volatile-ttl": 0} {
		if err := counters.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		if err := s.Relieve(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := value(t, registry, "eviction_policy_ok", policy); got != want {
			t.Errorf("%s: the metric is %v, want %v", policy, got, want)
		}
	}
	if most := value(t, registry, "max_memory_bytes", "rows"); most != 8<<20 || value(t, registry, "evicted_keys", "counters") != 0 {
		t.Errorf("the limit of the rows' server is %v", most)
	}
	if bound := value(t, registry, "rows_limit_bytes", ""); bound <= 4<<20 {
		t.Errorf("the bound is %v, though the rows' server has no counters", bound)
	}
	_ = counters.Close()
	if err := s.Relieve(t.Context()); err != nil {
		t.Errorf("without the counters' server: %v", err)
	}
}

// Two URLs of one server are one server.
func TestRowsHaveHalfOfAServerWithTwoAddresses(t *testing.T) {
	server := redistest.Single(t, "--maxmemory", "16mb")
	s, registry := newStore(t, Config{Rows: server.Client(), Counters: server.Client()})
	if err := s.Relieve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bound := value(t, registry, "rows_limit_bytes", ""); bound != 8<<20 {
		t.Errorf("the bound is %v", bound)
	}
}

func TestRegisteredOnce(t *testing.T) {
	client := redistest.Open(t, "redis://127.0.0.1")
	config := Config{Rows: client, Lifetime: lifetime, Registry: prometheus.NewRegistry()}
	if _, err := New(config); err != nil {
		t.Fatal(err)
	}
	if _, err := New(config); err == nil {
		t.Error("the metrics are registered twice")
	}
}

// Memory is what counts against the limit: neither the buffers of replicas nor those of the log do.
func TestMemoryMetricLeavesOutWhatDoesNotCount(t *testing.T) {
	m, registry := newMetrics(), prometheus.NewRegistry()
	if err := m.register(registry); err != nil {
		t.Fatal(err)
	}
	m.observe("counters", []redisinfo.Server{{"used_memory": "95", "mem_not_counted_for_evict": "30", "maxmemory": "100"}})
	if used := value(t, registry, "memory_bytes", "counters"); used != 65 {
		t.Errorf("the metric is %v", used)
	}
}
