package proxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"sara/proxy/connections"
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

// A network is the part of a server that accepts connections, and reads requests from them.
type network struct {
	edge      *fasthttp.Server
	open      *connections.Set
	listening listening
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

// serve answers requests on a listener until shutdown, and closes it.
func (n *network) serve(l net.Listener) error {
	if !n.listening.begin(l) {
		return l.Close()
	}
	if err := n.edge.Serve(l); err != nil {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// shutdown stops accepting, and waits for the requests in flight, or until ctx ends.
func (n *network) shutdown(ctx context.Context) error {
	defer n.listening.end()
	var sweep sync.WaitGroup
	sweeping, stop := context.WithCancel(ctx)
	defer sweep.Wait()
	defer stop()
	sweep.Go(func() { n.open.CloseUnused(sweeping) })
	if err := n.edge.ShutdownWithContext(ctx); err != nil {
		return fmt.Errorf("drain the server: %w", err)
	}
	return nil
}

// A listening is the listener of a server, from Serve to Shutdown. Either may come first.
type listening struct {
	mu       sync.Mutex // guards the following fields
	listener net.Listener
	ended    bool
}

// begin registers the listener. It reports false if end came first.
func (l *listening) begin(on net.Listener) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener = on
	return !l.ended
}

// end closes the listener, and makes a later begin fail. The HTTP library's shutdown misses a listener that it has not yet begun to serve.
func (l *listening) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.listener != nil {
		_ = l.listener.Close() // usually closed already
	}
}
