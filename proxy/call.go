package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"
	"unsafe"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/trace"

	"sara/policy"
	"sara/proxy/media"
	"sara/translate"
)

// A call is one request on its way through the stages. It belongs to one goroutine. The next request on its connection reuses its memory,
// unless it is held.
type call struct {
	id       string // of the request; it shares the bytes of ownID, unless another request made this one: valid as long as the call
	route    *route
	started  time.Time
	client   string               // IP address
	http     *fasthttp.RequestCtx // valid only until the handler returns
	header   requestHeader        // likewise
	memoized *admittedRequest     // nil: not in the memo, run every stage
	span     trace.Span           // nil: tracing is off
	message  string               // id of the MCP request that made this one; empty: it came from the network

	deadline deadline
	scratch  [256]byte // used by one stage at a time; in the end it holds the tail of the body
	body     body
	format   media.Format // of the body

	// Set by the stages: nil until then, and on routes that have no use for them.
	grant      *policy.Grant
	window     translate.Window
	windowEnds time.Time // when the anchor moves on
	params     *translate.Params
	property   *policy.Property

	part bool // a summary for another answer, such as of one property of a portfolio: without an HTTP request
	held bool // something that may outlive the request refers to the call or its context

	// Memory for the fields above, so that one allocation makes a call.
	ownID    requestID
	ownGrant policy.Grant // of a memoized request
	ownError apiError     // of a denial
}

// handle returns the handler of a route.
func (s *Server) handle(r *route) fasthttp.RequestHandler {
	if r.Operation != "" {
		r.series = s.telemetry.metrics.successSeriesOf(r.Operation)
	}
	return func(http *fasthttp.RequestCtx) { s.run(s.newCall(r, http)) }
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
		c := connection.takeCall()
		s.begin(c, http)
		if m := s.memo.find(http, &c.header); m != nil {
			c.memoized = m
			s.enter(c, m.route)
			s.run(c)
		} else if !s.refuseAtOnce(c, known) {
			connection.begun = c
			next(http) // which takes it
			return
		}
		connection.keepCall(c)
	}
}

// run takes a request through the stages, answers it and records it.
func (s *Server) run(c *call) {
	s.telemetry.metrics.inFlight.Inc()
	defer s.telemetry.metrics.inFlight.Dec()
	defer c.deadline.end()
	err := s.respond(c.context(), c)
	if c.grant != nil {
		connectionOf(c.http).MarkKeyed()
	}
	s.conclude(c, err)
}

// conclude answers a request with its error, if it has failed, and records it.
func (s *Server) conclude(c *call, err error) {
	failed := c.failureOf(err)
	if failed != nil {
		s.errors.send(c, failed)
	}
	s.telemetry.record(c, failed)
}

// failureOf is apiErrorOf, with the error of a denial in the call's own memory.
func (c *call) failureOf(err error) *apiError {
	denial, ok := err.(*policy.Denial)
	if !ok {
		return apiErrorOf(err)
	}
	c.ownError = apiErrorOfDenial(denial)
	return &c.ownError
}

// newCall returns the call of a request for a route: the one that withShortcuts has begun, if the request came that far.
func (s *Server) newCall(r *route, http *fasthttp.RequestCtx) *call {
	connection := connectionOf(http)
	c := connection.begun
	if connection.begun = nil; c == nil {
		c = new(call)
		s.begin(c, http)
	}
	s.enter(c, r)
	return c
}

// begin makes c the call of a request, whose route is not known yet. Nothing of an earlier request is left in it.
func (s *Server) begin(c *call, http *fasthttp.RequestCtx) {
	*c = call{http: http, header: s.headers.read(http), deadline: deadline{at: http.Time().Add(requestTimeout)}, ownID: newRequestID()}
	c.started, c.client = c.header.at, c.header.client(http)
	c.id = unsafe.String(&c.ownID[0], len(c.ownID)) // which does not change until the next request
	if m, ok := http.UserValue(mcpCall{}).(*message); ok {
		c.deadline.at, c.message = m.deadline, m.id
	}
}

// enter sets the route of a call.
func (s *Server) enter(c *call, r *route) {
	c.route = r
	s.telemetry.tracing.start(c)
}

// release drops what the call refers to once its handler has returned, except for the body, which the HTTP library has yet to send.
func (c *call) release() {
	c.http, c.header, c.memoized = nil, requestHeader{}, nil
	c.grant, c.params, c.property, c.ownGrant, c.ownError = nil, nil, nil, policy.Grant{}, apiError{}
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
