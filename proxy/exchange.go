package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"unsafe"

	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/proxy/media"
)

// An exchange is a call that has come by HTTP, on its way through the stages, and its answer. It belongs to one goroutine. The next request on
// its connection reuses its memory, unless the call is held.
type exchange struct {
	call // whose id shares the bytes of ownID

	route    *route
	client   string               // IP address
	http     *fasthttp.RequestCtx // valid only until the handler returns
	header   requestHeader        // likewise
	memoized *admittedRequest     // nil: not in the memo, run every stage
	message  string               // id of the MCP request that made this one; empty: it came from the network

	deadline deadline
	body     body         // whose tail is in the scratch memory
	format   media.Format // of the body

	// Memory for the fields above, so that one allocation makes an exchange.
	ownID    requestID
	ownGrant policy.Grant // of a memoized request
	ownError apiError     // of a denial
}

// handle returns the handler of a route.
func (s *Server) handle(r *route) fasthttp.RequestHandler {
	if r.Operation != "" {
		r.series = s.telemetry.metrics.successSeriesOf(r.Operation)
	}
	return func(http *fasthttp.RequestCtx) { s.run(s.newExchange(r, http)) }
}

// withHTTP1 is the first middleware. It begins to count the bytes of the next request, and refuses versions of HTTP that do not
// exist: the HTTP library takes HTTP/3.7 for HTTP/1.0.
func (s *Server) withHTTP1(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(http *fasthttp.RequestCtx) {
		connectionOf(http).BeginRequest()
		if header := &http.Request.Header; header.IsHTTP11() || string(header.Protocol()) == "HTTP/1.0" {
			next(http)
			return
		}
		s.sendMalformed(http, errVersion)
		http.SetConnectionClose()
	}
}

// withShortcuts is the middleware in front of the router. It answers the most frequent requests, which need no router: memoized ones, and
// guesses of keys.
func (s *Server) withShortcuts(known endpoints, next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(http *fasthttp.RequestCtx) {
		connection := connectionOf(http)
		x := connection.takeExchange()
		s.begin(x, http)
		if m := s.memo.find(http, &x.header); m != nil {
			x.memoized = m
			s.enter(x, m.route)
			s.run(x)
		} else if !s.refuseAtOnce(x, known) {
			connection.begun = x
			next(http) // which takes it
			return
		}
		connection.keepExchange(x)
	}
}

// run takes a request through the stages, answers it and records it.
func (s *Server) run(x *exchange) {
	s.telemetry.metrics.inFlight.Inc()
	defer s.telemetry.metrics.inFlight.Dec()
	defer x.deadline.end()
	err := s.respond(x.context(), x)
	if x.grant != nil {
		connectionOf(x.http).MarkKeyed()
	}
	s.conclude(x, err)
}

// conclude answers a request with its error, if it has failed, and records it.
func (s *Server) conclude(x *exchange, err error) {
	failed := x.failureOf(err)
	if failed != nil {
		s.errors.send(x, failed)
	}
	s.telemetry.record(x, failed)
}

// failureOf is apiErrorOf, with the error of a denial in the exchange's own memory.
func (x *exchange) failureOf(err error) *apiError {
	denial, ok := err.(*policy.Denial)
	if !ok {
		return apiErrorOf(err)
	}
	x.ownError = apiErrorOfDenial(denial)
	return &x.ownError
}

// newExchange returns the exchange of a request for a route: the one that withShortcuts has begun, if the request came that far.
func (s *Server) newExchange(r *route, http *fasthttp.RequestCtx) *exchange {
	connection := connectionOf(http)
	x := connection.begun
	if connection.begun = nil; x == nil {
		x = new(exchange)
		s.begin(x, http)
	}
	s.enter(x, r)
	return x
}

// begin makes x the exchange of a request, whose route is not known yet. Nothing of an earlier request is left in it.
func (s *Server) begin(x *exchange, http *fasthttp.RequestCtx) {
	*x = exchange{http: http, header: s.headers.read(http), deadline: deadline{at: http.Time().Add(requestTimeout)}, ownID: newRequestID()}
	x.started, x.client, x.noCache = x.header.at, x.header.client(http), x.header.noCache
	x.id = unsafe.String(&x.ownID[0], len(x.ownID)) // which does not change until the next request
	if m, ok := http.UserValue(mcpCall{}).(*message); ok {
		x.deadline.at, x.message = m.deadline, m.id
	}
}

// enter sets the route of an exchange.
func (s *Server) enter(x *exchange, r *route) {
	x.route = r
	s.telemetry.tracing.start(x)
}

// release drops what the exchange refers to once its handler has returned, except for the body, which the HTTP library has yet to send.
func (x *exchange) release() {
	x.http, x.header, x.memoized = nil, requestHeader{}, nil
	x.grant, x.params, x.property, x.ownGrant, x.ownError = nil, nil, nil, policy.Grant{}, apiError{}
}

const (
	requestIDPrefix = "req_"
	requestIDBytes  = 16
)

// A requestID is the text of random bytes in hexadecimal. It is an identifier, not a secret.
type requestID [len(requestIDPrefix) + 2*requestIDBytes]byte

func newRequestID() (id requestID) {
	var raw [requestIDBytes]byte
	binary.NativeEndian.PutUint64(raw[:], rand.Uint64())
	binary.NativeEndian.PutUint64(raw[8:], rand.Uint64())
	hex.Encode(id[copy(id[:], requestIDPrefix):], raw[:])
	return id
}

func (id requestID) String() string { return string(id[:]) }
