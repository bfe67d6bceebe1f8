package proxy

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Admin returns the handler of the admin listener: /livez, /readyz, /metrics, and with Config.Profiles
// /debug/pprof/. It must not be reachable from the internet: it requires no key.
func (s *Server) Admin() http.Handler { return s.admin }

func newAdmin(h *health, registry *prometheus.Registry, profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		writeStatus(w, http.StatusOK, "live")
	})
	mux.HandleFunc("GET /readyz", h.serveReady)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	if profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", http.NotFound) // a command line may hold a secret
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func (h *health) serveReady(w http.ResponseWriter, r *http.Request) {
	status, code := h.status(r.Context()), http.StatusOK
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
