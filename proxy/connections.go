package proxy

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy"
)

// The bounds of connections. Together they take up at most an eighth of the memory limit, and leave some of the open files that the
// process may have to connections to Redis, databases, stores and the upstream, and to the admin endpoints.
const (
	// connectionBytes is the measured memory of one connection: its read and write buffers, its goroutine's stack and its bookkeeping.
	connectionBytes = 60 << 10
	minConnections  = 256
	maxConnections  = 16 << 10
	minPerNetwork   = 64
	mostOtherFiles  = 256

	// evictAfter is how long a connection must have waited for bytes before it makes room for another one.
	evictAfter = time.Second
)

// connectionLimit returns how many connections may be open under a memory limit and a limit of open files; 0 is no limit.
func connectionLimit(memoryLimit int64, openFiles int) int {
	limit := int(min(memoryShare(memoryLimit, 8, minConnections*connectionBytes)/connectionBytes, maxConnections))
	if openFiles > 0 {
		limit = min(limit, max(openFiles/2, openFiles-mostOtherFiles))
	}
	return limit
}

// connections are the open connections of a server. Opening and closing one takes a lock; a request on one does not.
type connections struct {
	perNetwork int // 0: not bounded, because the peers are proxies
	clock      func() time.Time
	begun      time.Time
	metrics    connectionMetrics

	mu       sync.Mutex // guards the following fields
	all      connectionGroup
	networks map[string]*connectionGroup
}

// newConnections returns an empty set, for at most limit connections.
func newConnections(limit int, behindProxy bool, now func() time.Time, registry *prometheus.Registry) *connections {
	s := &connections{clock: now, begun: now(), all: connectionGroup{limit: limit}, networks: map[string]*connectionGroup{}}
	if !behindProxy {
		s.perNetwork = max(limit/4, minPerNetwork)
	}
	s.metrics = newConnectionMetrics(registry, s.count)
	return s
}

// now returns the time since the set began, in nanoseconds, always above zero.
func (s *connections) now() int64 { return max(0, int64(s.clock().Sub(s.begun))) + 1 }

func (s *connections) count() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(len(s.all.members))
}

// The reasons why a connection is refused.
const (
	refusedByTotal   = "total"
	refusedByAddress = "address"
)

// admit adds a connection. If there is no room, the connection that has waited longest is closed for it, of the same network
// if that is full, and of those without a valid key if there are any: a crowd of strangers evicts no customer. If none has
// waited long enough, admit returns the reason of the refusal.
func (s *connections) admit(c *connection) (refused string) {
	if s.perNetwork > 0 {
		c.network = policy.Network(c.address)
	}
	c.open = s
	s.mu.Lock()
	var victim *connection
	of := s.networks[c.network]
	if of == nil {
		of = &connectionGroup{limit: s.perNetwork}
	}
	switch now := s.now(); {
	case s.perNetwork > 0 && of.isFull():
		victim, refused = of.longestWaiting(now), refusedByAddress
	case s.all.isFull():
		victim, refused = s.all.longestWaiting(now), refusedByTotal
	}
	if victim != nil {
		s.drop(victim)
		s.metrics.evicted.Inc()
		refused = ""
	}
	if refused == "" {
		s.all.add(c)
		if s.perNetwork > 0 {
			of.add(c)
			s.networks[c.network] = of
		}
	} else {
		c.open = nil
		s.metrics.refused.WithLabelValues(refused).Inc()
	}
	s.mu.Unlock()
	if victim != nil {
		_ = victim.Conn.Close() // its reader notices
	}
	return refused
}

// closeUnused closes the connections that have waited for their first byte for evictAfter: their clients opened them in advance. The
// others may have a request on its way.
func (s *connections) closeUnused() {
	s.mu.Lock()
	var unused []*connection
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

func (s *connections) remove(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(c)
}

// drop removes a connection from its groups; it may have been removed already. The caller holds the lock.
func (s *connections) drop(c *connection) {
	delete(s.all.members, c)
	if of := s.networks[c.network]; of != nil {
		delete(of.members, c)
		if len(of.members) == 0 {
			delete(s.networks, c.network)
		}
	}
}

// A connectionGroup is a bounded set of connections.
type connectionGroup struct {
	limit   int
	members map[*connection]struct{}

	// A look at all members for each new connection would let a flood of them take up the processor.
	candidates []candidate // members that had waited longest by the last look, the longest last
	keyed      bool        // the candidates have carried valid keys, because no member without one had waited long enough
	lookAgain  int64       // before then no other member has waited long enough
}

// A candidate can be evicted as long as it waits since the same instant.
type candidate struct {
	connection *connection
	since      int64
}

// maxCandidates bounds what a group remembers of a look at its members.
const maxCandidates = 256

func (g *connectionGroup) isFull() bool { return len(g.members) >= g.limit }

func (g *connectionGroup) add(c *connection) {
	if g.members == nil {
		g.members = map[*connection]struct{}{}
	}
	g.members[c] = struct{}{}
}

// longestWaiting marks the member that has waited longest as evicted, and returns it; nil if none has waited for evictAfter.
// Members that have carried a valid key come last.
func (g *connectionGroup) longestWaiting(now int64) *connection {
	for {
		// A member without a key may have waited long enough by now.
		if outdated := g.keyed && now >= g.lookAgain; outdated || len(g.candidates) == 0 {
			if now < g.lookAgain || !g.look(now) {
				return nil
			}
		}
		last := len(g.candidates) - 1
		longest := g.candidates[last]
		g.candidates = g.candidates[:last]
		if g.evict(longest) {
			return longest.connection
		}
	}
}

// evict marks a candidate as evicted, unless it is one no longer.
func (g *connectionGroup) evict(c candidate) bool {
	if c.connection.keyed.Load() != g.keyed {
		g.lookAgain = 0 // it is still a candidate, but not the next
		return false
	}
	_, open := g.members[c.connection]
	return open && c.connection.waiting.CompareAndSwap(c.since, evicted)
}

// look finds the candidates. It reports whether there are any.
func (g *connectionGroup) look(now int64) bool {
	g.candidates = g.candidates[:0]
	g.lookAgain = now + int64(evictAfter)
	var keyed []candidate
	for c := range g.members {
		since := c.waiting.Load()
		switch {
		case since <= 0:
		case since+int64(evictAfter) > now:
			g.lookAgain = min(g.lookAgain, since+int64(evictAfter))
		case c.keyed.Load():
			keyed = append(keyed, candidate{c, since})
		default:
			g.candidates = append(g.candidates, candidate{c, since})
		}
	}
	if g.keyed = len(g.candidates) == 0; g.keyed {
		g.candidates = keyed
	} else if len(keyed) > 0 {
		g.lookAgain = now
	}
	slices.SortFunc(g.candidates, func(a, b candidate) int { return cmp.Compare(b.since, a.since) })
	if extra := len(g.candidates) - maxCandidates; extra > 0 {
		g.candidates = slices.Clone(g.candidates[extra:])
		g.lookAgain = now
	}
	return len(g.candidates) > 0
}

// connectionMetrics count connections. Their labels are constants.
type connectionMetrics struct {
	refused      *prometheus.CounterVec
	evicted      prometheus.Counter
	acceptErrors prometheus.Counter
}

func newConnectionMetrics(registry *prometheus.Registry, open func() float64) connectionMetrics {
	m := connectionMetrics{
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
