package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"
)

// The quiet tenants ask at a fixed rate, whatever happens to the answers. Latencies count from the time at which a request was
// due, so that one that could not be sent counts too.
type quiet struct {
	world   *world
	hits    *fasthttp.HostClient // over kept connections
	headers []string
	stop    context.CancelFunc
	ended   chan struct{}

	excuses []*excuse

	mu  sync.Mutex
	now *span
}

// A span is what quiet tenants met for some time.
type span struct {
	requests, errors, excused int
	byKind                    map[string]int // errors, by what failed and how
	hits, cold                *hdrhistogram.Histogram
}

func newSpan() *span {
	const longest, digits = int64(time.Minute), 2
	return &span{byKind: map[string]int{}, hits: hdrhistogram.New(1, longest, digits), cold: hdrhistogram.New(1, longest, digits)}
}

const (
	quietPatience = 30 * time.Second // longer than sara takes for any answer
	newEvery      = 10               // each tenth cached question comes on a new connection
)

// Questions of quiet tenants, as errors name them.
const (
	hitKept = "hit"
	hitNew  = "hit on a new connection"
	coldHit = "cold"
)

// startQuiet asks each tenant's cached question once, and then starts asking all along.
func (w *world) startQuiet(ctx context.Context, address string, headers []string, excuses ...*excuse) *quiet {
	ctx, stop := context.WithCancel(ctx)
	q := &quiet{world: w, hits: newClient(address), headers: headers, excuses: excuses, stop: stop, ended: make(chan struct{}), now: newSpan()}
	for i := range w.tenants {
		q.ask(q.hits, hitKept, w.hit(i), i, time.Now())
	}
	go func() {
		defer close(q.ended)
		var group sync.WaitGroup
		defer group.Wait()
		ticks := time.NewTicker(time.Duration(float64(time.Second) / w.hitRate))
		defer ticks.Stop()
		coldEvery := int(w.hitRate / w.coldRate)
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case due := <-ticks.C:
				group.Go(func() { q.turn(n, due) })
				if n%coldEvery == 0 {
					tenant := n / coldEvery % len(w.tenants)
					group.Go(func() { q.ask(q.hits, coldHit, w.cold(w.tenants[tenant]), tenant, due) })
				}
			}
		}
	}()
	return q
}

// hit returns the cached question of a tenant.
func (w *world) hit(tenant int) string { return w.property(w.tenants[tenant], 0) + "/queries" }

// turn sends the n-th cached question.
func (q *quiet) turn(n int, due time.Time) {
	tenant := n % len(q.world.tenants)
	if n%newEvery != 0 {
		q.ask(q.hits, hitKept, q.world.hit(tenant), tenant, due)
		return
	}
	client := newClient(q.hits.Addr)
	q.ask(client, hitNew, q.world.hit(tenant), tenant, due)
	client.CloseIdleConnections()
}

// ask sends one question of a tenant, and records the answer.
func (q *quiet) ask(client *fasthttp.HostClient, kind, path string, tenant int, due time.Time) {
	var response fasthttp.Response
	request := get(path, q.world.Keys[q.world.tenants[tenant]][0], q.headers...)
	err := client.DoTimeout(request, &response, quietPatience)
	took := time.Since(due)
	failure := ""
	switch {
	case err != nil:
		failure = describe(err)
	case response.StatusCode() != fasthttp.StatusOK:
		var problem string
		if failure, problem = classify(response.StatusCode(), "1", response.Body()); problem != "" {
			failure = problem
		}
	}
	excused := failure != "" && slices.ContainsFunc(q.excuses, func(e *excuse) bool { return e.allows(kind, failure, due) })
	q.mu.Lock()
	defer q.mu.Unlock()
	if excused {
		failure = ""
		q.now.excused++
	}
	q.now.record(kind, failure, took)
}

func (s *span) record(kind, failure string, took time.Duration) {
	s.requests++
	if failure != "" {
		s.errors++
		s.byKind[kind+": "+failure]++
	}
	latency := s.hits
	if kind == coldHit {
		latency = s.cold
	}
	_ = latency.RecordValue(int64(min(took, time.Minute))) // fails only out of range
}

// cut ends a span, and begins the next.
func (q *quiet) cut() *span {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := q.now
	q.now = newSpan()
	return last
}

// end stops asking, and waits for the answers under way, which are in the last span.
func (q *quiet) end() *span {
	q.stop()
	<-q.ended
	q.hits.CloseIdleConnections()
	return q.cut()
}

// p99 returns the 99th percentile of the cached questions.
func (s *span) p99() time.Duration {
	const percent = 99
	return time.Duration(s.hits.ValueAtQuantile(percent))
}

func (s *span) coldP99() time.Duration {
	const percent = 99
	return time.Duration(s.cold.ValueAtQuantile(percent))
}

// failures lists the errors.
func (s *span) failures() string {
	var parts []string
	for kind, n := range sorted(s.byKind) {
		parts = append(parts, fmt.Sprintf("%s (× %d)", kind, n))
	}
	return strings.Join(parts, "; ")
}
