package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Admin returns the handler of the admin listener: /livez, /readyz, /metrics and /debug/pprof/. It must not be reachable from
// the internet: it requires no key.
func (s *Server) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		writeStatus(w, http.StatusOK, "live")
	})
	mux.HandleFunc("GET /readyz", s.serveReady)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.config.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// The states of a server. A load balancer should send it requests while it is ready or degraded.
const (
	StateReady    = "ready"
	StateDegraded = "degraded" // it answers, but Redis is down
	StateDraining = "draining" // graceful shutdown has begun
	StateUnready  = "unready"  // it cannot answer now
)

// Status is the answer of /readyz to a client that accepts JSON. Others get state and reason as text.
type Status struct {
	State     string    `json:"state"`
	Reason    string    `json:"reason"`  // why it is not ready; empty when it is
	Version   string    `json:"version"` // of the build
	StartedAt time.Time `json:"started_at"`
}

func (s *Server) status(ctx context.Context) Status {
	status := Status{State: StateReady, Version: s.config.Version, StartedAt: s.started}
	err := s.Ready(ctx)
	switch {
	case errors.Is(err, errDraining):
		status.State, status.Reason = StateDraining, err.Error()
	case err != nil:
		status.State, status.Reason = StateUnready, err.Error()
	default:
		if reasons := s.degraded(); len(reasons) > 0 {
			status.State, status.Reason = StateDegraded, strings.Join(reasons, "; ")
		}
	}
	return status
}

// degraded returns what the server does without.
func (s *Server) degraded() (reasons []string) {
	if s.config.Degraded != nil && s.config.Degraded() {
		reasons = append(reasons, "Redis is away, budgets are this replica's own share")
	}
	if rows := s.config.Rows; rows != nil && rows.Separate() && rows.Away() {
		reasons = append(reasons, "the Redis of cached rows is away, this replica shares none")
	}
	return reasons
}

func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	status, code := s.status(r.Context()), http.StatusOK
	if status.State != StateReady && status.State != StateDegraded {
		code = http.StatusServiceUnavailable
	}
	switch {
	case r.Header.Get("Accept") == "application/json":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(status) // as in writeStatus
	case code != http.StatusOK:
		writeStatus(w, code, "not ready: "+status.Reason)
	case status.State == StateDegraded:
		writeStatus(w, code, "degraded: "+status.Reason)
	default:
		writeStatus(w, code, status.State)
	}
}

// writeStatus answers a probe. A write error means that the prober hung up, so it is ignored.
func writeStatus(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}
