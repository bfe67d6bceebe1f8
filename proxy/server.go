package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/trace"

	"sara/policy"
	"sara/proxy/cache"
	"sara/proxy/docs"
	"sara/translate"
)

// The bounds of the edge.
const (
	// maxURL is the longest request target. Twenty filters of plain text fit well; the rest of maxHeader is for headers.
	maxURL    = 24 << 10
	maxHeader = 32 << 10
	maxBody   = 1 << 10 // no request has a body that means something

	readTimeout    = 10 * time.Second // for a whole request, so that a client cannot hold a connection by sending slowly
	writeTimeout   = 30 * time.Second // for a whole answer, likewise by reading slowly
	idleTimeout    = 75 * time.Second // longer than the idle timeout of the usual proxies in front, which must give up first
	requestTimeout = 25 * time.Second // for the work of one request, upstream calls included; below writeTimeout
	fillTimeout    = 24 * time.Second // for one upstream call with its retries; so that who waits for it hears how it ended
	// usualAnswer is what most answers and their headers fit in, so that they are one write.
	usualAnswer = 16 << 10
	// maxConnections bounds the memory of connections, each of which keeps its buffers, some 50 KiB, while it is idle: reading the
	// first byte without a buffer would cost every request a system call.
	maxConnections = 16 << 10
)

// Server is the public API. Its methods are safe for concurrent use.
type Server struct {
	config   Config
	calendar translate.Calendar
	gate     *policy.Gate
	metrics  *metrics
	tracer   trace.Tracer // nil: there are no traces
	memo     memo
	cache    *cache.Cache
	access   *accessLog
	document *cache.Answer // the OpenAPI document
	pages    *docs.Pages   // the API reference
	edge     *fasthttp.Server
	started  time.Time
	draining atomic.Bool
	// forwardedBy is the header that the trusted proxy writes, as the HTTP library spells it; empty: there is none.
	forwardedBy string

	listening sync.Mutex   // guards what follows
	listener  net.Listener // of Serve
	ended     bool         // Shutdown was called
}

// newEdge makes the HTTP server. Its own error answers are replaced, because they are not in the envelope, and its logs
// of malformed requests silenced, because they quote headers, which carry keys.
func (s *Server) newEdge(routes []route) *fasthttp.Server {
	r := router.New()
	r.RedirectTrailingSlash = false
	r.RedirectFixedPath = false
	r.HandleOPTIONS = false
	for i := range routes {
		r.GET(routes[i].Path, s.handle(&routes[i]))
	}
	r.NotFound = s.handle(&route{Path: "unknown", serve: unknownPath})
	r.MethodNotAllowed = s.handle(&route{Path: "unknown", serve: wrongMethod})
	return &fasthttp.Server{
		Handler:               s.withMemo(s.withPages(r.Handler)),
		ErrorHandler:          s.sendMalformed,
		Name:                  "sara",
		ReadBufferSize:        maxHeader,
		WriteBufferSize:       usualAnswer,
		MaxRequestBodySize:    maxBody,
		ReadTimeout:           readTimeout,
		WriteTimeout:          writeTimeout,
		IdleTimeout:           idleTimeout,
		Concurrency:           maxConnections,
		CloseOnShutdown:       true,
		SecureErrorLogMessage: true,
		NoDefaultContentType:  true,
		Logger:                discardLogger{},
	}
}

// quiet drops what the HTTP library would log of single connections: clients that go away and requests that are not HTTP.
type discardLogger struct{}

func (discardLogger) Printf(string, ...any) {}

// Serve answers requests on the listener until Shutdown, and not at all after it. It is called once, and closes the listener.
func (s *Server) Serve(l net.Listener) error {
	if !s.listen(l) {
		return l.Close()
	}
	if err := s.edge.Serve(listener{l}); err != nil {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// listen reports whether the listener is to be served.
func (s *Server) listen(l net.Listener) bool {
	s.listening.Lock()
	defer s.listening.Unlock()
	s.listener = l
	return !s.ended
}

// closeListener closes a listener that Serve was called with a moment ago, and has it refuse one that it is called with
// later: the HTTP library shuts down those only that it knows.
func (s *Server) closeListener() {
	s.listening.Lock()
	defer s.listening.Unlock()
	s.ended = true
	if s.listener != nil {
		_ = s.listener.Close() // as a rule it is closed already
	}
}

// Drain makes Ready fail, so that whoever balances the load sends no more requests. Requests are still answered.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown stops accepting, lets the requests that are under way finish, and returns when they have, or with an error when
// ctx ends before that. Upstream calls that nobody waits for any more are cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	defer s.access.close()
	defer s.cache.Close()
	defer s.closeListener()
	if err := s.edge.ShutdownWithContext(ctx); err != nil {
		return fmt.Errorf("drain the server: %w", err)
	}
	return nil
}

// Invalidate makes the server look up keys, plans and properties anew: something was changed elsewhere.
func (s *Server) Invalidate() { s.gate.Invalidate() }

var errDraining = errors.New("the server is shutting down")

// Ready returns why the server should get no requests now, nil when it should.
func (s *Server) Ready(ctx context.Context) error {
	if s.draining.Load() {
		return errDraining
	}
	const pingTimeout = time.Second
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := s.config.Store.Ping(ctx); err != nil {
		return fmt.Errorf("the store does not answer: %w", err)
	}
	return nil
}

// Busy reports whether a customer waits for the upstream at this moment.
func (s *Server) Busy() bool { return s.cache.Filling() }
