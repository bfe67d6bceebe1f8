package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"sara/policy"
	"sara/proxy/fillbudget"
	"sara/translate"
)

// Server is the public API. Its methods are safe for concurrent use.
type Server struct {
	now func() time.Time

	// What decides on a request.
	gate     *policy.Gate
	calendar translate.Calendar
	memo     *memo

	// What answers it.
	reports    *reportServer
	portfolios *portfolioServer
	properties *propertyServer
	agents     *mcpEndpoint
	*reference

	// How it is read, and what its answer has besides.
	headers   *headerReader
	errors    *errorAnswers
	forms     forms
	sharing   sharing
	telemetry telemetry

	// What operators see.
	health *health
	admin  http.Handler

	// Its way through the network.
	network
	sendings *sendings
}

// New returns a server that is ready to serve.
func New(c Config) (*Server, error) { return newServer(c, newReference) }

// newServer is New with a function that builds the API reference, or returns one that is already built.
func newServer(c Config, referenceFor func(PublicConfig, time.Time) (*reference, error)) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("configure the server: %w", err)
	}
	c.setDefaults()
	s := &Server{
		now: c.Now, gate: newGate(c.Admission, c.Store, c.Now),
		headers: newHeaderReader(c.TrustedProxyHeader, c.Now, c.Log), errors: newErrorAnswers(c.Public.DocsURL), sharing: newSharing(c.CORSOrigins),
		network: network{open: c.Capacity.newConnections(c.TrustedProxyHeader != "", c.Process)}, sendings: newSendings(c.Capacity.sendings(), c.Registry),
	}
	s.telemetry = newTelemetry(c.AccessLog, newTracing(c.Tracing, c.Public.BaseURL, s.gate), c.Process)
	var err error
	if s.calendar, err = translate.NewCalendar(); err != nil {
		return nil, err
	}
	s.memo = newMemo(s.gate, s.calendar, c.AccessLog.Format)
	if s.reference, err = referenceFor(c.Public, c.Now()); err != nil {
		return nil, err
	}
	if s.health, err = newHealth(&c, s.gate); err != nil {
		return nil, err
	}
	s.admin = newAdmin(s.health, c.Registry, c.Profiles)
	portfolios, err := c.Capacity.newPortfolioBudget()
	if err != nil {
		return nil, err
	}
	// Nothing may fail after it: it would have to be closed.
	if s.reports, err = newReports(&c, s.gate); err != nil {
		return nil, err
	}
	s.forms = forms{s.reports.largeWork, s.reports.cache}
	s.portfolios = &portfolioServer{s.reports, c.Store, portfolios, s.telemetry.causes}
	s.properties = &propertyServer{c.Store, c.Reports.History, s.reports, s.calendar}
	s.agents = newMCPEndpoint(s, c.Public.BaseURL, c.Version)
	s.edge = s.newEdge(table())
	return s, nil
}

// Serve answers requests on the listener until Shutdown, and closes it. It must be called at most once.
func (s *Server) Serve(l net.Listener) error { return s.network.serve(s.newListener(l)) }

// Drain begins a graceful shutdown: /readyz fails, so that load balancers stop sending requests. Requests are still answered.
func (s *Server) Drain() { s.health.draining.Store(true) }

// Shutdown ends a graceful shutdown: it stops accepting and waits for the requests in flight, or until ctx ends. Upstream
// calls that no request waits for are cancelled.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	defer s.reports.cache.Close()
	return s.network.shutdown(ctx)
}

var _ policy.Listener = (*Server)(nil)

// Invalidate implements policy.Listener: it drops all cached keys, plans and properties.
func (s *Server) Invalidate() { s.gate.Invalidate() }

// Revalidate implements policy.Listener.
func (s *Server) Revalidate() { s.gate.Revalidate() }

// TakeKeyUses returns the hours in which keys were last used, by id, that were not taken before.
func (s *Server) TakeKeyUses() map[string]time.Time { return s.gate.TakeKeyUses() }

// KeepSnapshots keeps what the server knows about keys and properties for replicas that start without the database, and restores it if
// this one has started that way, until ctx ends.
func (s *Server) KeepSnapshots(ctx context.Context) {
	if s.health.snapshots != nil {
		s.health.snapshots.Keep(ctx, s.gate, time.Tick(policy.SnapshotInterval))
	}
}

// Fills returns the budget of the memory of upstream answers, of which background jobs take their share.
func (s *Server) Fills() *fillbudget.Budget { return s.reports.fills }

// Busy reports whether a request is waiting for the upstream now.
func (s *Server) Busy() bool { return s.reports.cache.Filling() }
