package proxy

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/proxy/fillbudget"
	"sara/translate"
)

// The limits of the edge.
const (
	// maxURL bounds the request target. Twenty filters fit easily; the rest of maxHeader is left for headers.
	maxURL    = 24 << 10
	maxHeader = 32 << 10
	maxBody   = 1 << 10 // no endpoint of the REST API reads a body
	// maxRequest bounds the bytes that a connection carries for one request. It leaves room for a body in chunks of a byte, and for a
	// buffer of the next request. The HTTP library bounds header and body, but not the extensions of chunks.
	maxRequest = 2*maxHeader + 8*maxBody

	readTimeout    = 5 * time.Second  // for a whole request: a client that sends slowly (slowloris) cannot hold a connection
	writeTimeout   = 30 * time.Second // for a whole answer: nor can one that reads slowly
	idleTimeout    = 75 * time.Second // longer than that of common proxies in front, which must close first
	requestTimeout = 25 * time.Second // to answer one request, upstream calls included; less than writeTimeout
	fillTimeout    = 24 * time.Second // for one upstream call with its retries; less than requestTimeout, so that waiting requests get its error
	// writeBuffer holds most answers with their headers, so that they take one write.
	writeBuffer = 16 << 10
	serverName  = "sara"
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
	sharing   sharing
	telemetry telemetry

	// What operators see.
	health *health
	admin  http.Handler

	// Its way through the network.
	network
	sendings *sendings
}

// newEdge builds the HTTP server: router, middleware and limits. The library's own error answers are replaced, because they are
// not in the envelope, and its log of malformed requests is discarded, because it quotes headers, which may hold keys.
func (s *Server) newEdge(routes []route) *fasthttp.Server {
	r := router.New()
	r.RedirectTrailingSlash = false
	r.RedirectFixedPath = false
	r.HandleOPTIONS = false
	for i := range routes {
		r.GET(routes[i].Path, s.handle(&routes[i]))
		r.HEAD(routes[i].Path, s.handle(&routes[i])) // the HTTP library leaves out the body
	}
	front := s.handle(&route{Path: "/", Open: true, serve: frontDoor})
	r.GET("/", front)
	r.HEAD("/", front)
	r.POST(pathMCP, s.agents.handle)
	// There are no streams to open (GET) and no sessions to end (DELETE).
	r.ANY(pathMCP, s.handle(&route{Path: pathMCP, Open: true, serve: wrongMethod(fasthttp.MethodPost, "MCP messages are sent with POST")}))
	r.NotFound = s.handle(&route{Path: "unknown", serve: unknownPath})
	r.MethodNotAllowed = s.handle(&route{Path: "unknown", serve: wrongMethod(readMethods, "every endpoint is read with GET or HEAD")})
	api := s.withShortcuts(newEndpoints(routes), s.withPages(r.Handler))
	s.agents.api = api
	return &fasthttp.Server{
		Handler:               s.withHTTP1(s.withCORS(api)),
		ErrorHandler:          s.sendMalformed,
		HeaderReceived:        mcpBody,
		Name:                  serverName,
		ReadBufferSize:        maxHeader,
		WriteBufferSize:       writeBuffer,
		MaxRequestBodySize:    maxBody,
		ReadTimeout:           readTimeout,
		WriteTimeout:          writeTimeout,
		IdleTimeout:           idleTimeout,
		Concurrency:           2 * s.open.Limit(), // closed ones leave a moment later
		CloseOnShutdown:       true,
		SecureErrorLogMessage: true,
		NoDefaultContentType:  true,
		Logger:                discardLogger{},
	}
}

// A discardLogger discards the HTTP library's log: clients that disconnect and requests that are not HTTP.
type discardLogger struct{}

func (discardLogger) Printf(string, ...any) {}

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

// TakeKeyUses returns the hours in which keys were last used, by id, that were not taken before.
func (s *Server) TakeKeyUses() map[string]time.Time { return s.gate.TakeKeyUses() }

// Revalidate implements policy.Listener.
func (s *Server) Revalidate() { s.gate.Revalidate() }

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
