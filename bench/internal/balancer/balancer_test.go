package balancer

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Requests go to the replicas that are ready, and to another one if a connection fails.
func TestBalancerObeysReadiness(t *testing.T) {
	var backends []Backend
	var ready [2]atomic.Bool
	var servers [2]*httptest.Server
	for i := range ready {
		ready[i].Store(true)
		servers[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/readyz" && !ready[i].Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = io.WriteString(w, string(rune('a'+i)))
		}))
		t.Cleanup(servers[i].Close)
		backends = append(backends, Backend{Address: strings.TrimPrefix(servers[i].URL, "http://"), Admin: servers[i].URL})
	}
	b := Start()
	t.Cleanup(b.Close)
	b.Set(backends)
	answers := func() string {
		t.Helper()
		var all strings.Builder
		for range 4 {
			response, err := http.Get(b.URL + "/")
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			all.Write(body)
		}
		return all.String()
	}
	await := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); b.Ready() != n; <-time.After(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d are ready, want %d", b.Ready(), n)
			}
		}
	}
	if got := answers(); got != "baba" && got != "abab" {
		t.Errorf("in turn: %s", got)
	}
	servers[0].Close() // the next request tries the other one, before a probe fails
	if got := answers(); got != "bbbb" {
		t.Errorf("with one that is gone: %s", got)
	}
	ready[1].Store(false)
	await(0)
	if got := answers(); !strings.Contains(got, errNoneReady.Error()) {
		t.Errorf("with none ready: %s", got)
	}
	ready[1].Store(true)
	await(1)
	if got := answers(); got != "bbbb" {
		t.Errorf("ready again: %s", got)
	}
}

// An added backend that does not answer its first probe must not delay the others' requests: the delay would be in the figures.
func TestFirstProbeDelaysNoRequest(t *testing.T) {
	probed, release := make(chan struct{}, 1), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case probed <- struct{}{}:
		default:
		}
		<-release
	}))
	t.Cleanup(slow.Close)
	quick := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(quick.Close)
	backend := func(s *httptest.Server) Backend {
		return Backend{Address: strings.TrimPrefix(s.URL, "http://"), Admin: s.URL}
	}
	b := Start()
	t.Cleanup(b.Close)
	b.prober.Timeout = 0 // the probe ends when the test lets it
	b.Set([]Backend{backend(quick)})
	set := make(chan struct{})
	go func() {
		defer close(set)
		b.Set([]Backend{backend(quick), backend(slow)})
	}()
	<-probed
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(b.URL + "/")
	close(release)
	<-set
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || b.Ready() != 2 {
		t.Errorf("status %d, and then %d are ready", response.StatusCode, b.Ready())
	}
}
