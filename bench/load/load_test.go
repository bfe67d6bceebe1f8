package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sara/bench/internal/loadgen"
	"sara/bench/internal/measure"
	"sara/bench/internal/report"
	"sara/cmd/sara/saratest"
)

// The program runs itself as the bare handler. In tests, the test binary does.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == bareCommand {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := serveBare(ctx, os.Args[2], os.Stdout)
		stop()
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func needRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
}

// A short run of memory hits: every request is a hit, and has all figures.
func TestMemoryHits(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs sara")
	}
	needRedis(t)
	o, err := parse([]string{"-scenarios", "memory,peers", "-connections", "2,8"})
	if err != nil {
		t.Fatal(err)
	}
	o.binary, o.trace = saratest.Binary(t), smallest()
	// Long enough, on a busy machine, for many requests: the allocations of a metrics scrape are subtracted, and they vary.
	o.warmUp, o.loop, o.rounds = 0, 500*time.Millisecond, 1
	r := &report.Report{}
	if err := run(t.Context(), o, r, io.Discard); err != nil {
		t.Fatal(err)
	}
	if len(r.Measurements) != 4 || len(r.Comparisons) < 1 {
		t.Fatalf("%d measurements, %d comparisons", len(r.Measurements), len(r.Comparisons))
	}
	var objects, allocated float64 // over all loops: those of a single loop, few per hit, may be lost among those of a scrape
	for _, m := range r.Measurements {
		objects, allocated = objects+m.Request.Objects, allocated+m.Request.Allocated
		if m.Requests == 0 || m.Statuses[200] != m.Requests || m.Cache["hit"] != m.Requests || m.Request.Upstream != 0 {
			t.Errorf("%s: %d requests, statuses %v, X-Cache %v, %g upstream calls", m.Loop, m.Requests, m.Statuses, m.Cache, m.Request.Upstream)
		}
		if c := m.Request; c.Bytes < 7500 || c.Bytes > 8700 || c.RedisReads <= 0 || m.Resident[measure.Sara] == 0 {
			t.Errorf("%s: a request cost %+v; %v resident", m.Loop, c, m.Resident)
		}
		if m.Latency.P50 <= 0 || m.Latency.Max < m.Latency.P99 || m.Held.Entries < 1 || m.Held.Bytes < 1000 ||
			len(m.Curve) != len(report.CurvePercentiles()) {
			t.Errorf("%s: latencies %+v, %v; %+v in memory", m.Loop, m.Latency, m.Curve, m.Held)
		}
	}
	if objects <= 0 || allocated <= 0 {
		t.Errorf("no request allocated anything: %g objects, %g bytes", objects, allocated)
	}
	for _, c := range r.Comparisons {
		if len(c.Rounds) != 1 || c.Rounds[0].Other.Throughput <= 0 || c.Throughput.Median <= 0 || c.With == "" || c.About == "" {
			t.Errorf("a comparison: %+v", c)
		}
	}
}

func TestOptions(t *testing.T) {
	o, err := parse(nil)
	if err != nil || len(o.scenarios) != len(scenarios()) || !o.compare || o.loop != time.Second {
		t.Errorf("the default is %+v (%v)", o, err)
	}
	o, err = parse([]string{"-scenarios", "misses,mix", "-long", "-connections", "1"})
	if err != nil || len(o.scenarios) != 2 || o.scenarios[1].name != "mix" || o.compare || o.loop != 10*time.Second || o.connections[0] != 1 {
		t.Errorf("%+v (%v)", o, err)
	}
	for _, args := range [][]string{{"-scenarios", "nonsense"}, {"-connections", "0"}, {"-connections", "1,x"}, {"-connections", ""}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestMixAddsUp(t *testing.T) {
	total := 0
	for _, weight := range mixWeights() {
		total += weight
	}
	if total != 100 || len(mixed()) != len(mixWeights()) {
		t.Errorf("%d %% of %d scenarios: %v", total, len(mixed()), mixWeights())
	}
}

// Each part of a blend gets each of its requests once.
func TestBlendRepeatsNoRequest(t *testing.T) {
	var asked [2][]int64
	var parts []part
	for i, weight := range []int{3, 1} {
		parts = append(parts, part{func(n int64) loadgen.Request { asked[i] = append(asked[i], n); return nil }, weight})
	}
	source := blend(parts)
	for n := range int64(8) {
		source(n)
	}
	for i, want := range [][]int64{{0, 1, 2, 3, 4, 5}, {0, 1}} {
		if slices.Sort(asked[i]); !slices.Equal(asked[i], want) {
			t.Errorf("two rounds of the weight %d ask for %v, want %v", parts[i].weight, asked[i], want)
		}
	}
}

func TestBareHandlerSendsTheSameBytes(t *testing.T) {
	const given = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Type: application/json; charset=utf-8\r\nEtag: \"x\"\r\n" +
		"Server: sara\r\nX-Cache: hit\r\nX-Ratelimit-Limit: 100\r\n\r\n{\"a\":[1]}"
	handler, err := repeat([]byte(given))
	if err != nil {
		t.Fatal(err)
	}
	var c fasthttp.RequestCtx
	c.Response.Header.SetNoDefaultContentType(true)
	handler(&c)
	if string(c.Response.Body()) != `{"a":[1]}` || c.Response.StatusCode() != http.StatusOK {
		t.Errorf("%d %s", c.Response.StatusCode(), c.Response.Body())
	}
	for line := range strings.Lines(given) {
		name, value, isField := strings.Cut(strings.TrimSpace(line), ": ")
		if got := string(c.Response.Header.Peek(name)); isField && name != "Content-Length" && got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	if _, err := repeat([]byte("nonsense")); err == nil {
		t.Error("no error for something that is not an answer")
	}
}
