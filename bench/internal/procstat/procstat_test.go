package procstat

import (
	"bufio"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"sara/policy/redisconn"
)

func TestParseStatSkipsTheName(t *testing.T) {
	p, err := parseStat([]byte("42 (a) b (c) R 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 5 1 2 3"))
	if err != nil || p.User != 2500*time.Millisecond || p.System != 500*time.Millisecond || p.CPU() != 3*time.Second {
		t.Errorf("%+v %v", p, err)
	}
	for _, stat := range []string{"", "42 (a) R 1", "42 (a) R 1 42 42 0 -1 4194304 100 0 0 0 x 50 0 0"} {
		if _, err := parseStat([]byte(stat)); err == nil {
			t.Errorf("%q: no error", stat)
		}
	}
}

// getrusage returns the same times, except for the rounding in /proc.
func TestReadProcess(t *testing.T) {
	usage := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	sum := uint64(0)
	for began := usage(); usage() < began+50*time.Millisecond; {
		sum += rand.Uint64()
	}
	earliest := usage()
	p, err := readProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	latest := usage()
	if p.CPU() < earliest-2*tick || p.CPU() > latest {
		t.Errorf("%v of processor time, between %v and %v by rusage (%d)", p.CPU(), earliest, latest, sum)
	}
	if p.Resident < 1<<20 {
		t.Errorf("%d bytes resident", p.Resident)
	}
	if _, err := readProcess(1 << 30); err == nil {
		t.Error("no error for a process that does not exist")
	}
}

// metricsOf serves the metrics of this process.
func metricsOf(t *testing.T) *httptest.Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return server
}

// kept makes allocations escape to the heap.
var kept []byte

func TestSinceSubtractsTheScrape(t *testing.T) {
	server := metricsOf(t)
	g := Reader{Servers: []Server{{Name: "this", PID: os.Getpid(), Metrics: server.URL}}, Client: server.Client()}
	if err := g.Calibrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := g.Before(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const objects, size = 200_000, 512
	for range objects {
		kept = make([]byte, size)
	}
	after, err := g.After(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	used := g.Since(before, after)
	near := func(got, want float64) bool { return got > .97*want && got < 1.03*want } // the runtime counts whole spans
	if heap := used.Heaps["this"]; !near(heap.Objects, objects) || !near(heap.Bytes, objects*size) {
		t.Errorf("%d objects of %d bytes are measured as %+v, a scrape as %+v", objects, size, heap, g.overhead["this"])
	}
	if used.Elapsed <= 0 || used.Processes["this"].Resident == 0 {
		t.Errorf("used %+v", used)
	}
}

func TestMetricsSumTheirSeries(t *testing.T) {
	metrics, err := parseMetrics(strings.NewReader("# HELP a What.\n# TYPE a counter\na{b=\"c d\"} 1\na{b=\"e\"} 2.5\nheap 1.5e+06\n"))
	if err != nil || len(metrics) != 2 || metrics["a"] != 3.5 || metrics["heap"] != 1.5e6 {
		t.Errorf("%v %v", metrics, err)
	}
	if _, err := parseMetrics(strings.NewReader("a b c\n")); err == nil {
		t.Error("no error for a value that is not a number")
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if _, err := ReadMetrics(t.Context(), server.Client(), server.URL); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("missing metrics: %v", err)
	}
}

// startRedis starts a private Redis.
func startRedis(t *testing.T) redisconn.Client {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	socket := filepath.Join(t.TempDir(), "redis")
	server := exec.CommandContext(t.Context(), "redis-server", "--port", "0", "--unixsocket", socket, "--save", "")
	said, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() }) // the test's context has ended it
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if strings.Contains(lines.Text(), "eady to accept connections") {
			client, err := redisconn.Open("unix://"+socket, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			return client
		}
	}
	t.Fatal("Redis did not start")
	return nil
}

func TestRedisCountsCommandsAndRoundTrips(t *testing.T) {
	client := startRedis(t)
	if _, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error { return p.Get(t.Context(), "a").Err() }); !errors.Is(err, redis.Nil) {
		t.Fatal(err) // opens the connection for pipelines
	}
	g := Reader{Redis: client}
	before, err := g.Before(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for range 3 {
		if err := client.Set(ctx, "a", "b", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range 10 {
			p.Get(ctx, "a")
		}
		p.Eval(ctx, "redis.call('INCR', 'n') return redis.call('INCR', 'n')", nil)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	after, err := g.After(ctx)
	if err != nil {
		t.Fatal(err)
	}
	used := g.Since(before, after).Redis
	for name, want := range map[string]int64{"set": 3, "get": 10, "eval": 1, "incr": 2} {
		if got := used.Commands[name].Calls; got != want {
			t.Errorf("%d calls of %s, want %d", got, name, want)
		}
	}
	if used.Calls("incr") != 14 || used.Reads != 4 || len(used.Commands) != 4 {
		t.Errorf("%d calls in %d reads: %+v", used.Calls("incr"), used.Reads, used.Commands)
	}
	if used.CPU < 0 || used.Commands["eval"].Took <= 0 {
		t.Errorf("CPU %v, %+v", used.CPU, used.Commands)
	}
}

func TestInvalidCountersOfRedis(t *testing.T) {
	for _, text := range []string{"cmdstat_get:calls=x", "used_cpu_sys:fast", "total_reads_processed:-"} {
		if _, err := parseInfo(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
