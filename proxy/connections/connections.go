// Package connections holds the connections of clients within bounds, so that neither a crowd nor slow clients (slowloris) take up the
// memory of the process.
//
// A Set bounds how many are open: in total, and for each network of addresses. At a bound, the connection that has waited longest for
// bytes is closed to make room, preferably one that has carried no valid key. If none has waited long enough, the new one is refused: a
// goroutine sends it an answer, so that a flood of connections does not hold up accepting.
//
// A Conn is one of them. Its deadlines are cheap to move, which the HTTP library does three times a request, and it bounds the bytes of a
// request. Opening and closing a Conn takes a lock; a request on one does not.
//
// The package knows nothing of requests and keys: its user marks where a request begins, and which connections have carried a valid key.
// A Set is safe for concurrent use.
package connections

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy"
)

const (
	minPerNetwork = 64
	// evictAfter is how long a connection must have waited for bytes before it makes room for another one.
	evictAfter = time.Second
)

// Config configures a Set. All fields are required, except for BehindProxy.
type Config struct {
	Limit       int  // of open connections
	BehindProxy bool // the peers are proxies: only Limit bounds their connections
	MaxRequest  int  // the most bytes that a connection carries for one request
	Now         func() time.Time
	Log         *slog.Logger
	Registry    *prometheus.Registry
}

// A Set is the open connections of a server.
type Set struct {
	config     Config
	perNetwork int // 0: not bounded
	begun      time.Time
	metrics    metrics

	mu       sync.Mutex // guards the following fields
	all      group
	networks map[string]*group
}

// New returns an empty Set.
func New(c Config) *Set {
	s := &Set{config: c, begun: c.Now(), all: group{limit: c.Limit}, networks: map[string]*group{}}
	if !c.BehindProxy {
		s.perNetwork = max(c.Limit/4, minPerNetwork)
	}
	s.metrics = newMetrics(c.Registry, s.count)
	return s
}

// now returns the time since the set began, in nanoseconds, always above zero.
func (s *Set) now() int64 { return max(0, int64(s.config.Now().Sub(s.begun))) + 1 }

// Limit returns how many connections may be open.
func (s *Set) Limit() int { return s.config.Limit }

func (s *Set) count() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(len(s.all.members))
}

// The reasons why a connection is refused.
const (
	refusedByTotal   = "total"
	refusedByAddress = "address"
)

// admit adds a connection. If there is no room, and none can be made, it returns the reason of the refusal.
func (s *Set) admit(c *Conn) (refused string) {
	if s.perNetwork > 0 {
		c.network = policy.Network(c.Address)
	}
	s.mu.Lock()
	victim, refused := s.makeRoom(c.network)
	if refused == "" {
		s.add(c)
	}
	s.mu.Unlock()
	if victim != nil {
		_ = victim.Conn.Close() // its reader notices
	}
	return refused
}

// makeRoom removes the connection that has waited longest if there is no room for one of a network: of the same network if that is full, and
// of those without a valid key if there are any, so that a crowd of strangers evicts no customer. The caller holds the lock, and closes the
// victim. If none has waited long enough, makeRoom returns the reason of a refusal.
func (s *Set) makeRoom(network string) (victim *Conn, refused string) {
	switch of := s.networks[network]; {
	case of != nil && of.isFull():
		victim, refused = of.longestWaiting(s.now()), refusedByAddress
	case s.all.isFull():
		victim, refused = s.all.longestWaiting(s.now()), refusedByTotal
	}
	switch {
	case victim != nil:
		s.drop(victim)
		s.metrics.evicted.Inc()
		return victim, ""
	case refused != "":
		s.metrics.refused.WithLabelValues(refused).Inc()
	}
	return nil, refused
}

// add adds a connection to its groups. The caller holds the lock.
func (s *Set) add(c *Conn) {
	s.all.add(c)
	if s.perNetwork == 0 {
		return
	}
	of := s.networks[c.network]
	if of == nil {
		of = &group{limit: s.perNetwork}
		s.networks[c.network] = of
	}
	of.add(c)
}

// CloseUnused closes unused connections until ctx ends. The HTTP library's shutdown waits five seconds for the first request of each.
func (s *Set) CloseUnused(ctx context.Context) {
	const pause = 50 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		s.closeUnused()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// closeUnused closes the connections that have waited for their first byte for evictAfter: their clients opened them in advance. The
// others may have a request on its way.
func (s *Set) closeUnused() {
	s.mu.Lock()
	var unused []*Conn
	for c := range s.all.members {
		since := c.waiting.Load()
		if since > 0 && since+int64(evictAfter) <= s.now() && !c.used.Load() && c.waiting.CompareAndSwap(since, evicted) {
			unused = append(unused, c)
			s.drop(c)
		}
	}
	s.mu.Unlock()
	for _, c := range unused {
		_ = c.Conn.Close() // its reader notices
	}
}

func (s *Set) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(c)
}

// drop removes a connection from its groups; it may have been removed already. The caller holds the lock.
func (s *Set) drop(c *Conn) {
	delete(s.all.members, c)
	if of := s.networks[c.network]; of != nil {
		delete(of.members, c)
		if len(of.members) == 0 {
			delete(s.networks, c.network)
		}
	}
}

// metrics count connections. Their labels are constants.
type metrics struct {
	refused      *prometheus.CounterVec
	evicted      prometheus.Counter
	acceptErrors prometheus.Counter
}

func newMetrics(registry *prometheus.Registry, open func() float64) metrics {
	m := metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sara_connections_refused_total",
			Help: "Connections answered 503 because as many as memory and open files allow were open: in total, or from one address.",
		}, []string{"reason"}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_connections_evicted_total", Help: "Connections closed to make room for others, after waiting for bytes for a second or longer.",
		}),
		acceptErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sara_accept_errors_total", Help: "Failures to accept a connection, such as when file descriptors run out.",
		}),
	}
	for _, reason := range []string{refusedByTotal, refusedByAddress} {
		m.refused.WithLabelValues(reason)
	}
	registry.MustRegister(m.refused, m.evicted, m.acceptErrors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sara_connections", Help: "Open connections of the public API.",
	}, open))
	return m
}
