package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sara/policy"
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

// HealthConfig says what a Server may have to do without. Every field may be left out.
type HealthConfig struct {
	// Degraded reports whether the budgets run degraded, while Redis is down; nil: never.
	Degraded func() bool

	// ArchiveAway returns why the object store of the archive is not used, or "" while it is; nil: it always is used.
	ArchiveAway func() string

	// Snapshots keep what the server knows about keys and properties for replicas that start without the database, and restore it at such
	// a start; nil: there are none. KeepSnapshots has to run.
	Snapshots *policy.Snapshots

	// Degradations are what else may be missing.
	Degradations []Degradation
}

// health knows whether a server can answer requests, and what it has to do without.
type health struct {
	database     databaseCheck
	gate         *policy.Gate
	snapshots    *policy.Snapshots // nil: there are none
	degradations []Degradation     // everything that the server may have to do without
	version      string
	started      time.Time
	draining     atomic.Bool
}

// newHealth returns the health of a server, and exports it as metrics.
func newHealth(c *Config, gate *policy.Gate) (*health, error) {
	h := &health{database: databaseCheck{ping: c.Store.Ping, now: c.Now}, gate: gate, snapshots: c.Health.Snapshots,
		version: c.Version, started: c.Now().UTC()}
	h.degradations = []Degradation{
		{"database", h.withoutDatabase},
		{"snapshot", h.fromSnapshot},
		{"redis", when(c.Health.Degraded, "Redis is away, budgets are this replica's own share")},
	}
	if rows := c.Cache.Rows; rows != nil && rows.Separate() {
		h.add("redis_cache", when(rows.Away, "the Redis of cached rows is away, this replica shares none"))
	}
	if away := c.Health.ArchiveAway; away != nil {
		h.add("archive", func() string { return withoutArchive(away()) })
	}
	h.degradations = append(h.degradations, c.Health.Degradations...)
	return h, c.Registry.Register(newReadiness(h))
}

func (h *health) add(reason string, active func() string) {
	h.degradations = append(h.degradations, Degradation{reason, active})
}

var errDraining = errors.New("the server is shutting down")

// unready returns the reason why load balancers should send no requests, nil if they should. It fails only when the server can answer
// no request: without the database, it still answers the keys that it knows.
func (h *health) unready(ctx context.Context) error {
	if h.draining.Load() {
		return errDraining
	}
	err := h.database.check(ctx)
	if err == nil || h.gate.KnowsKeys() {
		return nil
	}
	err = fmt.Errorf("the database does not answer, and no key is known from the last five minutes: %w", err)
	if h.snapshots == nil {
		return err
	}
	if problem := h.snapshots.Problem(); problem != nil {
		err = fmt.Errorf("%w; no snapshot replaces it: %w", err, problem)
	}
	return err
}

func (h *health) status(ctx context.Context) Status {
	status := Status{State: StateReady, Version: h.version, StartedAt: h.started}
	err := h.unready(ctx)
	switch {
	case errors.Is(err, errDraining):
		status.State, status.Reason = StateDraining, err.Error()
	case err != nil:
		status.State, status.Reason = StateUnready, err.Error()
	default:
		if reasons := h.missing(); len(reasons) > 0 {
			status.State, status.Reason = StateDegraded, strings.Join(reasons, "; ")
		}
	}
	return status
}

// missing returns what the server does without now, for people.
func (h *health) missing() (reasons []string) {
	for _, d := range h.degradations {
		if text := d.Active(); text != "" {
			reasons = append(reasons, text)
		}
	}
	return reasons
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

func (h *health) withoutDatabase() string {
	if h.database.check(context.Background()) == nil {
		return ""
	}
	return "the database is away, only keys and properties known from the last five minutes are answered"
}

func (h *health) fromSnapshot() string {
	if h.snapshots == nil {
		return ""
	}
	from := h.snapshots.Restored()
	if from.IsZero() {
		return ""
	}
	return "started without the database, with what other replicas knew at " + from.UTC().Format(time.TimeOnly) + " UTC"
}

func withoutArchive(why string) string {
	if why == "" {
		return ""
	}
	return "the object store of the archive does not answer, stored history is not served: " + why
}

const (
	// databaseCheckTime is how long a check of the database is used, so that probes and scrapes cost it little.
	databaseCheckTime = time.Second
	// databaseCheckTimeout is below the timeouts of probes.
	databaseCheckTimeout = time.Second
)

// A databaseCheck checks whether the database answers, on a connection of its own: a full pool does not count as an outage.
type databaseCheck struct {
	ping func(context.Context) error
	now  func() time.Time

	mu        sync.Mutex // guards the following fields; held while checking, so that concurrent probes share a check
	checkedAt time.Time
	err       error
}

func (d *databaseCheck) check(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if age := d.now().Sub(d.checkedAt); !d.checkedAt.IsZero() && age >= 0 && age < databaseCheckTime {
		return d.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseCheckTimeout)
	defer cancel()
	d.err = d.ping(ctx)
	d.checkedAt = d.now()
	return d.err
}
