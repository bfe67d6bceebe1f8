package proxy

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/lru"
	"sara/proxy/cache"
)

const (
	// defaultHedgeDelay leaves half a second of the three within which a stored answer is promised.
	defaultHedgeDelay = 2500 * time.Millisecond
	// hedgeFactor is how many times the usual latency of a property a request waits. It never waits less than a third of the
	// longest delay: the figures of the archive are coarser than live ones.
	hedgeFactor = 4
	// maxLatencies bounds the properties whose latency is kept, some 300 B each.
	maxLatencies = 10_000
)

// A lateError means that a request has waited for the delay of its hedge. Its fills continue.
type lateError struct{ reason string } // for the client

func (e lateError) Error() string { return e.reason }

// reasonSlow is the reason of a request that waits for the upstream, as opposed to the memory of its fill.
const reasonSlow = "Search Console takes longer than usual to answer"

// A hedge decides how long an unfiltered request waits for the upstream before stored figures answer it (hedged request). The
// delay follows the usual latency of the property. It is safe for concurrent use.
type hedge struct {
	longest time.Duration
	usual   *lru.Cache[string, *latencies] // by property
	stored  prometheus.Counter
	waited  prometheus.Counter
}

func newHedge(longest time.Duration, registry *prometheus.Registry) *hedge {
	hedged := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sara_hedged_requests_total",
		Help: "Requests whose live figures took longer than usual, by outcome: stored figures answered (stored), or there were none, " +
			"so that they waited on (waited).",
	}, []string{"outcome"})
	registry.MustRegister(hedged)
	return &hedge{longest: cmp.Or(longest, defaultHedgeDelay), usual: lru.New[string](lru.Config[*latencies]{Weight: maxLatencies}),
		stored: hedged.WithLabelValues("stored"), waited: hedged.WithLabelValues("waited")}
}

// delay returns how long a request waits for the upstream's figures of a property.
func (h *hedge) delay(propertyID string) time.Duration {
	known, ok := h.usual.Get(propertyID)
	if !ok {
		return h.longest
	}
	return min(max(hedgeFactor*known.high(), h.longest/3), h.longest)
}

// observe records how long a successful call for a property took. A failed one shows nothing about the usual latency.
func (h *hedge) observe(propertyID string, took time.Duration) {
	known, ok := h.usual.Get(propertyID)
	if !ok {
		known = new(latencies)
		h.usual.Put(propertyID, known)
	}
	known.add(took)
}

// canHedge reports whether stored figures may answer while the upstream is late.
func (c *call) canHedge() bool { return len(c.params.Filters) == 0 }

// hedgedAnswer answers from stored figures while the upstream is late: its call continues in the background, and its rows will be
// cached. An error means that nothing is stored.
func (s *reportServer) hedgedAnswer(ctx context.Context, p *plan, read *upstreamRead) (reply, error) {
	copies := make([]cache.Found, len(read.parts))
	for i := range read.parts {
		if request := &read.parts[i].request; request.Fill != nil {
			copies[i] = s.cache.Copy(ctx, *request)
		}
	}
	r, err := s.fallBack(ctx, &material{plan: *p, found: copies}, liveFailure{read.late(), read.calls.hasCalled()})
	if err != nil {
		s.hedge.waited.Inc()
		return reply{}, err
	}
	s.hedge.stored.Inc()
	return r, nil
}

// latencies are the last 20 of a property; the second highest of them is the 95th percentile. They are safe for concurrent use.
type latencies struct {
	mu   sync.Mutex // guards the following fields
	last [20]time.Duration
	n    int // that were added
}

func (l *latencies) add(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[l.n%len(l.last)] = took
	l.n++
}

// high returns the 95th percentile. While there are fewer than 20 it is the highest; 0 if there is none.
func (l *latencies) high() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n < len(l.last) {
		return slices.Max(l.last[:])
	}
	sorted := l.last
	slices.Sort(sorted[:])
	return sorted[len(sorted)-2]
}
