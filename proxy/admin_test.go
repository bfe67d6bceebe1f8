package proxy

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"sara/proxy/upstream/gscsim"
)

// probe sends a GET to the admin listener.
func (w *world) probe(path string) (status int, body string) {
	w.t.Helper()
	answer, err := http.Get(w.admin.URL + path)
	w.must(err)
	defer func() { w.must(answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	w.must(err)
	return answer.StatusCode, string(text)
}

func (w *world) metrics() string {
	w.t.Helper()
	_, body := w.probe("/metrics")
	return body
}

func (w *world) wantProbe(path string, status int, words string) {
	w.t.Helper()
	if got, body := w.probe(path); got != status || !strings.Contains(body, words) {
		w.t.Errorf("%s answers %d %q, want %d %q", path, got, body, status, words)
	}
}

func TestAdmin200(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantProbe("/livez", http.StatusOK, "live")
	w.wantProbe("/readyz", http.StatusOK, "ready")
	w.wantProbe("/debug/pprof/", http.StatusNotFound, "")
	w.wantProbe("/v1/me", http.StatusNotFound, "")
}

func TestAdminProfiles200(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Profiles = true })
	w.wantProbe("/debug/pprof/", http.StatusOK, "goroutine")
	w.wantProbe("/debug/pprof/heap?debug=1", http.StatusOK, "heap")
	w.wantProbe("/debug/pprof/cmdline", http.StatusNotFound, "")
}

func TestAdmin503(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.store.Close())
	w.wantProbe("/readyz", http.StatusServiceUnavailable, "the database does not answer")
	w.wantProbe("/livez", http.StatusOK, "live")
	w = newWorld(t)
	w.server.Drain()
	w.wantProbe("/readyz", http.StatusServiceUnavailable, "shutting down")
	w.wantProbe("/livez", http.StatusOK, "live")
	w.get("pro", "/v1/me").ok(t) // requests are still answered
}

// A client that accepts JSON gets state, reason, version and start time, with the same HTTP status as any other.
func TestAdminReportsStatus(t *testing.T) {
	t.Parallel()
	degraded := false
	w := newWorld(t, func(c *Config) { c.Health.Degraded = func() bool { return degraded } })
	f := func(code int, want Status) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.admin.URL+"/readyz", nil)
		w.must(err)
		request.Header.Set("Accept", "application/json")
		answer, err := http.DefaultClient.Do(request)
		w.must(err)
		defer func() { w.must(answer.Body.Close()) }()
		var got Status
		w.must(json.NewDecoder(answer.Body).Decode(&got))
		want.Version, want.StartedAt = "test", noon()
		if answer.StatusCode != code || got != want {
			t.Errorf("/readyz answers %d %+v, want %d %+v", answer.StatusCode, got, code, want)
		}
	}
	w.advance(time.Hour)
	f(http.StatusOK, Status{State: StateReady})
	degraded = true
	f(http.StatusOK, Status{State: StateDegraded, Reason: "Redis is away, budgets are this replica's own share"})
	w.wantProbe("/readyz", http.StatusOK, "degraded: Redis is away")
	w.server.Drain()
	f(http.StatusServiceUnavailable, Status{State: StateDraining, Reason: "the server is shutting down"})
}

// Series come from the route table and the codes: clients cannot create any.
func TestMetricsHaveNoLabelsFromClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	count := func() int { return strings.Count(w.metrics(), "\n") }
	w.get("pro", "/v1/me").ok(t)
	w.get("pro", "/v1/nothing")
	w.get("pro", "/v1/properties/nothing")
	w.get("", "/v1/me")
	before := count()
	for _, path := range []string{"/v1/needle", "/needle", "/v1/me/needle", "/v1/properties/needle", "/v1/properties/needle2"} {
		w.get("pro", path)
	}
	w.ask(http.MethodGet, "/v1/me", "needle")
	body := w.metrics()
	if strings.Contains(body, "needle") || strings.Contains(body, w.properties["main"].ID) || count() != before {
		t.Errorf("clients created series: %d lines, before %d", count(), before)
	}
	for _, series := range []string{
		`sara_requests_total{code="",operation="getAccount",status="200"} 1`,
		`sara_requests_total{code="INVALID_API_KEY",operation="getAccount",status="401"} 2`,
		`sara_requests_total{code="NOT_FOUND",operation="unknown",status="404"} 4`,
		`sara_requests_total{code="NOT_FOUND",operation="getProperty",status="404"} 3`,
		`sara_request_duration_seconds_count{operation="getAccount"} 3`,
		"sara_requests_in_flight 0", "sara_panics_total 0", `sara_build_info{version="test"} 1`,
	} {
		if !strings.Contains(body, series) {
			t.Errorf("no series %s in\n%s", series, regexp.MustCompile(`(?m)^sara_requests_total.*$`).FindAllString(body, -1))
		}
	}
}

// Graceful shutdown finishes the request in flight, and accepts no new one.
func TestShutdownFinishesRequestsInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reached, release := make(chan struct{}), make(chan struct{})
	w.answerWith(func(rw http.ResponseWriter, _ *http.Request) {
		close(reached)
		<-release
		mustWrite(rw, `{"responseAggregationType":"byProperty"}`)
	})
	answered := make(chan response, 1)
	go func() { answered <- w.get("pro", w.path("main", "/summary")) }()
	<-reached
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		stopped <- w.server.Shutdown(ctx)
	}()
	for w.server.health.unready(t.Context()) == nil {
	}
	select {
	case err := <-stopped:
		t.Errorf("stopped before the request was answered: %v", err)
	default:
	}
	close(release)
	if r := <-answered; r.status != http.StatusOK {
		t.Errorf("the request in flight is answered with %d %s", r.status, r.body)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := http.Get(w.base + "/v1/me"); err == nil {
		t.Error("a stopped server answers")
	}
}

// SIGTERM ends a process even while it starts.
func TestShutdownBeforeServe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.server.Shutdown(t.Context()))
	late, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(late) }()
	select {
	case err := <-served:
		w.must(err)
	case <-time.After(time.Minute):
		t.Error("it serves after it was shut down")
		w.must(late.Close())
	}
	if conn, err := net.Dial("tcp", late.Addr().String()); err == nil {
		w.must(conn.Close())
		t.Error("it listens after it was shut down")
	}
}

func faultQuota() gscsim.Faults            { return gscsim.Faults{Reason: "quotaExceeded"} }
func faultStatus(status int) gscsim.Faults { return gscsim.Faults{Status: status} }
