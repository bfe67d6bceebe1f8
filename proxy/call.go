package proxy

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/trace"

	"sara/policy"
	"sara/translate"
)

// A call is one request on its way through the server. It belongs to one goroutine.
type call struct {
	id      string
	route   *route
	started time.Time
	client  string               // its address
	wire    *fasthttp.RequestCtx // only until the handler's turn ends
	fields  fields               // likewise
	meaning *meaning             // nil if that has to be found out
	span    trace.Span           // nil: the server makes no traces

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
		r.successes = s.metrics.successesOf(r.Operation)
	}
	return func(wire *fasthttp.RequestCtx) { s.run(s.newCall(r, wire, s.fieldsOf(wire))) }
}

// recalling makes the handler of everything: a request whose meaning is known needs no route. Of others the fields are read
// again behind the router, which could only hand them over in an allocation.
func (s *Server) recalling(find fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(wire *fasthttp.RequestCtx) {
		f := s.fieldsOf(wire)
		m := s.recall(wire, &f)
		if m == nil {
			find(wire)
			return
		}
		c := s.newCall(m.route, wire, f)
		c.meaning = m
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
		s.refuse(c, err)
	}
	s.finish(c, err)
}

func (s *Server) newCall(r *route, wire *fasthttp.RequestCtx, f fields) *call {
	c := &call{id: newRequestID(), route: r, started: f.at, client: f.client(wire), wire: wire, fields: f,
		deadline: deadline{at: wire.Time().Add(requestTimeout)}}
	if s.tracer != nil {
		s.begin(c)
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
func catch(err *error) {
	if p := recover(); p != nil {
		*err = &panicError{value: p, stack: debug.Stack()}
	}
}

// respond answers a request with a success. With an error it has answered nothing that cannot be replaced.
func (s *Server) respond(ctx context.Context, c *call) (err error) {
	defer catch(&err)
	answer, err := s.answer(ctx, c)
	if err == nil {
		s.send(c, answer)
	}
	return err
}

// answer takes the stages in their order: whose request it is, what it asks, of which property.
func (s *Server) answer(ctx context.Context, c *call) (answer reply, err error) {
	if c.meaning != nil {
		return s.answerAgain(ctx, c)
	}
	if len(c.wire.RequestURI()) > maxURL {
		return reply{}, &failure{code: codeTooLarge, status: fasthttp.StatusRequestURITooLong,
			message: fmt.Sprintf("the URL is longer than %d bytes", maxURL)}
	}
	if err := s.admit(ctx, c); err != nil {
		return reply{}, err
	}
	if c.route.Operation == "" {
		return c.route.serve(s, ctx, c)
	}
	if c.params, err = translate.Parse(c.route.Endpoint, c.wire.URI().QueryString(), c.window); err != nil {
		return reply{}, err
	}
	if strings.Contains(c.route.Path, "{id}") {
		if err := s.find(ctx, c); err != nil {
			return reply{}, err
		}
	}
	return c.route.serve(s, ctx, c)
}

// answerAgain answers a request whose meaning is known, once its key and the budgets allow it.
func (s *Server) answerAgain(ctx context.Context, c *call) (answer reply, err error) {
	m := c.meaning
	admission, span := c.step(ctx, "admit")
	c.grant, err = s.gate.Readmit(admission, m.grant, c.started, c.route.Scope)
	span.End()
	if err != nil {
		return reply{}, asStoreError(err)
	}
	c.window, c.params, c.property = m.window, m.params, m.property
	q := m.question
	return s.figures(ctx, c, &q)
}

// admit decides on the key and the budgets. On a path or a method that does not exist the key decides nothing and is
// charged nothing, but its account's allowance still stands in the headers.
func (s *Server) admit(ctx context.Context, c *call) (err error) {
	if c.route.Open {
		return nil
	}
	ctx, span := c.step(ctx, "admit")
	defer span.End()
	request := policy.Request{Authorization: c.fields.key(), Address: c.client, RequiredScopes: c.route.Scope}
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
func (s *Server) find(ctx context.Context, c *call) error {
	raw, _ := c.wire.UserValue("id").(string) // a copy that the router made: the gate may keep it
	reference, err := translate.UnescapePathSegment(raw)
	if err != nil {
		return err
	}
	c.property, err = s.gate.Property(ctx, c.grant, reference)
	return asStoreError(err)
}

func unknownPath(_ *Server, _ context.Context, c *call) (reply, error) {
	return reply{}, &failure{code: policy.CodeNotFound, status: fasthttp.StatusNotFound,
		message: "there is nothing at this path; a property's own URL has to be percent-encoded as one path segment"}
}

func wrongMethod(_ *Server, _ context.Context, c *call) (reply, error) {
	return reply{}, &failure{code: codeMethodNotAllowed, status: fasthttp.StatusMethodNotAllowed,
		message: "the method " + string(c.wire.Method()) + " is not allowed: every endpoint is GET"}
}
