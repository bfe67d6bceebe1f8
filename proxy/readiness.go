package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The states of a server. A load balancer should send it requests while it is ready or degraded.
const (
	StateReady    = "ready"
	StateDegraded = "degraded" // it answers, but does without something
	StateDraining = "draining" // graceful shutdown has begun
	StateUnready  = "unready"  // it can answer no request now
)

// Status is the answer of /readyz to a client that accepts JSON. Others get state and reason as text.
type Status struct {
	State     string    `json:"state"`
	Reason    string    `json:"reason"`  // why it is not ready; empty when it is
	Version   string    `json:"version"` // of the build
	StartedAt time.Time `json:"started_at"`
}

// A Degradation is something that a server does without while it answers.
type Degradation struct {
	Reason string        // the label of the metric, such as "redis"
	Active func() string // what is missing, for people; empty: nothing is
}

var errDraining = errors.New("the server is shutting down")

// unready returns the reason why load balancers should send no requests, nil if they should. It fails only when the server can answer
// no request: without the database, it still answers the keys that it knows.
func (s *Server) unready(ctx context.Context) error {
	if s.draining.Load() {
		return errDraining
	}
	err := s.database.check(ctx)
	if err == nil || s.gate.KnowsKeys() {
		return nil
	}
	err = fmt.Errorf("the database does not answer, and no key is known from the last five minutes: %w", err)
	if s.config.Snapshots == nil {
		return err
	}
	if problem := s.config.Snapshots.Problem(); problem != nil {
		err = fmt.Errorf("%w; no snapshot replaces it: %w", err, problem)
	}
	return err
}

func (s *Server) status(ctx context.Context) Status {
	status := Status{State: StateReady, Version: s.config.Version, StartedAt: s.started}
	err := s.unready(ctx)
	switch {
	case errors.Is(err, errDraining):
		status.State, status.Reason = StateDraining, err.Error()
	case err != nil:
		status.State, status.Reason = StateUnready, err.Error()
	default:
		var reasons []string
		for _, d := range s.degradations() {
			if text := d.Active(); text != "" {
				reasons = append(reasons, text)
			}
		}
		if len(reasons) > 0 {
			status.State, status.Reason = StateDegraded, strings.Join(reasons, "; ")
		}
	}
	return status
}

// degradations returns everything that the server may have to do without.
func (s *Server) degradations() []Degradation {
	own := []Degradation{
		{"database", s.withoutDatabase},
		{"snapshot", s.fromSnapshot},
		{"redis", when(s.config.Degraded, "Redis is away, budgets are this replica's own share")},
	}
	if rows := s.config.Cache.Rows; rows != nil && rows.Separate() {
		own = append(own, Degradation{"redis_cache", when(rows.Away, "the Redis of cached rows is away, this replica shares none")})
	}
	if s.config.ArchiveAway != nil {
		own = append(own, Degradation{"archive", s.withoutArchive})
	}
	return append(own, s.config.Degradations...)
}

// when returns the text while active, which may be nil, reports true.
func when(active func() bool, text string) func() string {
	return func() string {
		if active != nil && active() {
			return text
		}
		return ""
	}
}

func (s *Server) withoutDatabase() string {
	if s.database.check(context.Background()) == nil {
		return ""
	}
	return "the database is away, only keys and properties known from the last five minutes are answered"
}

func (s *Server) fromSnapshot() string {
	if s.config.Snapshots == nil {
		return ""
	}
	from := s.config.Snapshots.Restored()
	if from.IsZero() {
		return ""
	}
	return "started without the database, with what other replicas knew at " + from.UTC().Format(time.TimeOnly) + " UTC"
}

func (s *Server) withoutArchive() string {
	why := s.config.ArchiveAway()
	if why == "" {
		return ""
	}
	return "the object store of the archive does not answer, stored history is not served: " + why
}

const (
	// storeCheckTime is how long a check of the database is used, so that probes and scrapes cost it little.
	storeCheckTime = time.Second
	// storeCheckTimeout is below the timeouts of probes.
	storeCheckTimeout = time.Second
)

// storeHealth checks whether the database answers, on a connection of its own: a full pool does not count as an outage.
type storeHealth struct {
	ping func(context.Context) error
	now  func() time.Time

	mu        sync.Mutex // guards the following fields; held while checking, so that concurrent probes share a check
	checkedAt time.Time
	err       error
}

func (h *storeHealth) check(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if age := h.now().Sub(h.checkedAt); !h.checkedAt.IsZero() && age >= 0 && age < storeCheckTime {
		return h.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeCheckTimeout)
	defer cancel()
	h.err = h.ping(ctx)
	h.checkedAt = h.now()
	return h.err
}

// readiness exports the state of a server as metrics.
type readiness struct {
	server          *Server
	ready, degraded *prometheus.Desc
}

func newReadiness(s *Server) *readiness {
	return &readiness{
		server:   s,
		ready:    prometheus.NewDesc("sara_ready", "1 while load balancers should send requests, degraded or not; /readyz then answers 200.", nil, nil),
		degraded: prometheus.NewDesc("sara_degraded", "1 while the server answers without something, by what is missing.", []string{"reason"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (r *readiness) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- r.ready
	descriptions <- r.degraded
}

// Collect implements prometheus.Collector.
func (r *readiness) Collect(metrics chan<- prometheus.Metric) {
	metrics <- prometheus.MustNewConstMetric(r.ready, prometheus.GaugeValue, one(r.server.unready(context.Background()) == nil))
	for _, d := range r.server.degradations() {
		metrics <- prometheus.MustNewConstMetric(r.degraded, prometheus.GaugeValue, one(d.Active() != ""), d.Reason)
	}
}

// one returns 1 for true.
func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
