package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/trace"

	"sara/policy"
	"sara/translate"
)

// A call is one request on its way through the server. It belongs to one goroutine.
type call struct {
	id       string
	route    *route
	started  time.Time
	client   string               // its address
	http     *fasthttp.RequestCtx // only until the handler's turn ends
	header   requestHeader        // likewise
	memoized *admittedRequest     // nil if that has to be found out
	span     trace.Span           // nil: the server makes no traces

	deadline deadline  // of the work for the request
	scratch  [256]byte // for the stage that is under way; what the last one leaves there is the body's
	body     body

	// Known from some stage on: nil before it, or when the route has no use for it.
	grant    *policy.Grant
	window   translate.Window
	params   *translate.Params
	property *policy.Property
}

// handle makes the handler of a route.
func (s *Server) handle(r *route) fasthttp.RequestHandler {
	if r.Operation != "" {
		r.series = s.metrics.successSeriesOf(r.Operation)
	}
	return func(http *fasthttp.RequestCtx) { s.run(s.newCall(r, http, s.readHeader(http))) }
}

// withMemo makes the handler of everything: a request whose meaning is known needs no route. Of others the fields are read
// again behind the router, which could only hand them over in an allocation.
func (s *Server) withMemo(find fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(http *fasthttp.RequestCtx) {
		f := s.readHeader(http)
		m := s.memoized(http, &f)
		if m == nil {
			find(http)
			return
		}
		c := s.newCall(m.route, http, f)
		c.memoized = m
		s.run(c)
	}
}

// run takes a request through the stages.
func (s *Server) run(c *call) {
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	defer c.deadline.end()
	err := s.respond(c.context(), c)
	if err != nil {
		s.sendError(c, err)
	}
	s.record(c, err)
}

func (s *Server) newCall(r *route, http *fasthttp.RequestCtx, h requestHeader) *call {
	c := &call{id: newRequestID(), route: r, started: h.at, client: h.client(http), http: http, header: h,
		deadline: deadline{at: http.Time().Add(requestTimeout)}}
	if s.tracer != nil {
		s.startSpan(c)
	}
	return c
}

const requestIDPrefix = "req_"

// newRequestID returns 16 random bytes in hexadecimal. It is an identifier, not a secret.
func newRequestID() string {
	var raw [16]byte
	binary.NativeEndian.PutUint64(raw[:], rand.Uint64())
	binary.NativeEndian.PutUint64(raw[8:], rand.Uint64())
	var text [len(requestIDPrefix) + 2*len(raw)]byte
	return string(hex.AppendEncode(append(text[:0], requestIDPrefix...), raw[:]))
}

// catch makes an error of a panic below: a bug of ours fails its request, and the process lives. Every goroutine that
// works for a request defers it.
func recoverPanic(err *error) {
	if p := recover(); p != nil {
		*err = &panicError{value: p, stack: debug.Stack()}
	}
}

// respond answers a request with a success. With an error it has answered nothing that cannot be replaced.
func (s *Server) respond(ctx context.Context, c *call) (err error) {
	defer recoverPanic(&err)
	answer, err := s.answer(ctx, c)
	if err == nil {
		s.send(c, answer)
	}
	return err
}

// answer takes the stages in their order: whose request it is, what it asks, of which property.
func (s *Server) answer(ctx context.Context, c *call) (answer reply, err error) {
	if c.memoized != nil {
		return s.answerMemoized(ctx, c)
	}
	if len(c.http.RequestURI()) > maxURL {
		return reply{}, &apiError{code: codeTooLarge, status: fasthttp.StatusRequestURITooLong,
			message: fmt.Sprintf("the URL is longer than %d bytes", maxURL)}
	}
	if err := s.admit(ctx, c); err != nil {
		return reply{}, err
	}
	if c.route.Operation == "" {
		return c.route.serve(s, ctx, c)
	}
	if c.params, err = translate.Parse(c.route.Endpoint, c.http.URI().QueryString(), c.window); err != nil {
		return reply{}, err
	}
	if strings.Contains(c.route.Path, "{id}") {
		if err := s.findProperty(ctx, c); err != nil {
			return reply{}, err
		}
	}
	return c.route.serve(s, ctx, c)
}

// answerMemoized answers a request whose meaning is known, once its key and the budgets allow it.
func (s *Server) answerMemoized(ctx context.Context, c *call) (answer reply, err error) {
	m := c.memoized
	admission, span := c.step(ctx, "admit")
	c.grant, err = s.gate.Readmit(admission, m.grant, c.started, c.route.Scope)
	span.End()
	if err != nil {
		return reply{}, asStoreError(err)
	}
	c.window, c.params, c.property = m.window, m.params, m.property
	q := m.request
	return s.answerReport(ctx, c, &q)
}

// admit decides on the key and the budgets. On a path or a method that does not exist the key decides nothing and is
// charged nothing, but its account's allowance still stands in the headers.
func (s *Server) admit(ctx context.Context, c *call) (err error) {
	if c.route.Open {
		return nil
	}
	ctx, span := c.step(ctx, "admit")
	defer span.End()
	request := policy.Request{Authorization: c.header.key(), Address: c.client, RequiredScopes: c.route.Scope}
	if c.route.Operation == "" {
		c.grant = s.gate.Identify(ctx, request)
		return nil
	}
	if c.grant, err = s.gate.Admit(ctx, request); err != nil {
		return asStoreError(err)
	}
	c.window = translate.NewWindow(s.calendar.Anchor(c.started), c.grant.Plan.RetentionMonths)
	return nil
}

// find resolves the property that the path names.
func (s *Server) findProperty(ctx context.Context, c *call) error {
	raw, _ := c.http.UserValue("id").(string) // a copy that the router made: the gate may keep it
	reference, err := translate.UnescapePathSegment(raw)
	if err != nil {
		return err
	}
	c.property, err = s.gate.Property(ctx, c.grant, reference)
	return asStoreError(err)
}

func unknownPath(_ *Server, _ context.Context, c *call) (reply, error) {
	return reply{}, &apiError{code: policy.CodeNotFound, status: fasthttp.StatusNotFound,
		message: "there is nothing at this path; a property's own URL has to be percent-encoded as one path segment"}
}

func wrongMethod(_ *Server, _ context.Context, c *call) (reply, error) {
	return reply{}, &apiError{code: codeMethodNotAllowed, status: fasthttp.StatusMethodNotAllowed,
		message: "the method " + string(c.http.Method()) + " is not allowed: every endpoint is GET"}
}

// fields are what sara reads of a request's header, found in one walk through it: the HTTP library takes one for each field
// that it is asked for. Their bytes are the request's.
type requestHeader struct {
	at time.Time // when they were read, which a request counts as begun

	authorizations int
	authorization  []byte // the last one
	forwarded      []byte // the last line of the field that the trusted proxy writes; nil: there is none
	conditional    bool   // there is an If-None-Match
	live           bool   // the client will have no copy (RFC 9111, no-cache)
	gzip           bool   // the client accepts it (RFC 9110, Accept-Encoding)
	gzipNamed      bool   // which was said of gzip itself
}

// readHeader reads the fields of a request.
func (s *Server) readHeader(http *fasthttp.RequestCtx) requestHeader {
	h := requestHeader{at: s.config.Now()}
	for name, line := range http.Request.Header.All() {
		switch string(name) {
		case fasthttp.HeaderAuthorization:
			h.authorization = line
			h.authorizations++
		case fasthttp.HeaderIfNoneMatch:
			h.conditional = true
		case fasthttp.HeaderCacheControl:
			h.readCacheControl(line)
		case fasthttp.HeaderAcceptEncoding:
			h.readAcceptEncoding(line)
		}
		if s.forwardedBy != "" && string(name) == s.forwardedBy {
			h.forwarded = line
		}
	}
	return h
}

func (h *requestHeader) readCacheControl(line []byte) {
	for directive := range bytes.SplitSeq(line, []byte(",")) {
		if bytes.EqualFold(bytes.TrimSpace(directive), []byte("no-cache")) {
			h.live = true
		}
	}
}

func (h *requestHeader) readAcceptEncoding(line []byte) {
	for member := range bytes.SplitSeq(line, []byte(",")) {
		coding, weight, _ := bytes.Cut(member, []byte(";"))
		name := bytes.TrimSpace(coding)
		named := bytes.EqualFold(name, []byte("gzip")) || bytes.EqualFold(name, []byte("x-gzip"))
		if h.gzipNamed || !named && string(name) != "*" {
			continue
		}
		h.gzip, h.gzipNamed = !isZero(weight), named
	}
}

// isZero reports whether a weight such as q=0.0 refuses.
func isZero(weight []byte) bool {
	_, number, found := bytes.Cut(weight, []byte("="))
	return found && len(bytes.Trim(bytes.TrimSpace(number), "0.")) == 0
}

// key returns the Authorization field, for as long as the request's bytes live; of two there is no telling which one is
// meant, so they are none.
func (h *requestHeader) key() string {
	if h.authorizations != 1 {
		return ""
	}
	return unsafe.String(unsafe.SliceData(h.authorization), len(h.authorization))
}

// client is the address that the trusted proxy in front saw, or the connection's own peer without one. Of a list of
// addresses, on one line or on several, the last is the one that the proxy itself has added; the others are the client's
// word.
func (h *requestHeader) client(http *fasthttp.RequestCtx) string {
	if last := bytes.TrimSpace(h.forwarded[bytes.LastIndexByte(h.forwarded, ',')+1:]); len(last) > 0 {
		return string(last)
	}
	return http.Conn().(*connection).address // as the listener makes them all
}

// A deadline is the context of one request: it ends at a time, or with the request. Most requests are answered from memory
// and never look at their context, so that the timer and what else a context of the standard library takes are made for
// those that do. It is safe for concurrent use.
type deadline struct {
	at time.Time

	mu     sync.Mutex // guards what follows
	inner  context.Context
	cancel context.CancelFunc // of inner
	ended  bool
}

var _ context.Context = (*deadline)(nil)

// Deadline implements context.Context.
func (d *deadline) Deadline() (at time.Time, ok bool) { return d.at, true }

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} { return d.context().Done() }

// Value implements context.Context. It hands out the inner context's own values: by one of them the standard library knows
// a context that children can be attached to, for which it would take a goroutine otherwise.
func (d *deadline) Value(key any) any { return d.context().Value(key) }

// Err implements context.Context.
func (d *deadline) Err() error {
	d.mu.Lock()
	inner, ended := d.inner, d.ended
	d.mu.Unlock()
	if inner == nil && !ended && time.Now().Before(d.at) {
		return nil
	}
	return d.context().Err()
}

// end cancels the context: the request is over.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}

// context returns the inner context, and makes it if nobody has asked for it before.
func (d *deadline) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.inner != nil:
	case d.ended:
		d.inner, d.cancel = context.WithCancel(context.Background())
		d.cancel()
	default:
		d.inner, d.cancel = context.WithDeadline(context.Background(), d.at)
	}
	return d.inner
}
