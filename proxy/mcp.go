package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"sara/policy"
	"sara/policy/panics"
	"sara/proxy/connections"
	"sara/proxy/mcp"
	"sara/proxy/netguard"
	"sara/proxy/openapi"
	"sara/translate"
)

const pathMCP = "/mcp"

// mcpReserve is the part of a message's time that is left to write its answer: the SDK answers nothing once the time is over.
const mcpReserve = time.Second

// mcpEndpoint serves agents (package mcp). It is not part of the REST API: its messages are JSON-RPC, and only what refuses a request
// before it is read is in the envelope.
type mcpEndpoint struct {
	server *Server
	route  *route
	serve  fasthttp.RequestHandler // of messages that are admitted
	api    fasthttp.RequestHandler // of the requests that messages make
	hosts  []string                // that the service is reached by, besides loopback
}

func newMCPEndpoint(s *Server, baseURL, version string) *mcpEndpoint {
	e := &mcpEndpoint{server: s, route: &route{Path: pathMCP}}
	if base, err := url.Parse(baseURL); err == nil {
		e.hosts = append(e.hosts, hostname(base.Host))
	}
	inner := sync.OnceValue(func() http.Handler { return mcp.New(e, version) }) // lazily: its schemas take long, and many servers never need it
	e.serve = fasthttpadaptor.NewFastHTTPHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := r.Context().Value(mcpCall{}).(*message)
		inner().ServeHTTP(w, r.WithContext(context.WithValue(m.ctx, mcpCall{}, m)))
	}))
	return e
}

// mcpCall is the key of the message in the context of an MCP request, and in the requests that it makes.
type mcpCall struct{}

// A message is what the requests of an MCP message have in common. It is read by several goroutines at a time.
type message struct {
	ctx                            context.Context // ends mcpReserve after deadline, with the span of the message
	id                             string          // of the request that brought it
	grant                          *policy.Grant
	deadline                       time.Time // of the requests that the message makes
	connection                     *connections.Conn
	host, authorization, forwarded string
}

// handle answers a message. It authenticates the key and charges nothing: tools make requests of their own, which are charged.
func (e *mcpEndpoint) handle(http *fasthttp.RequestCtx) {
	s := e.server
	x := s.newExchange(e.route, http)
	s.telemetry.metrics.inFlight.Inc()
	defer s.telemetry.metrics.inFlight.Dec()
	defer x.deadline.end()
	s.conclude(x, e.respond(x))
}

func (e *mcpEndpoint) respond(x *exchange) (err error) {
	defer panics.Recover(&err)
	if err := e.checkOrigin(x.http); err != nil {
		return err
	}
	ctx, span := x.step(x.context(), "authenticate")
	messages := mcp.Messages(x.http.PostBody())
	x.grant, err = e.server.gate.AdmitMessages(ctx, x.request(), min(messages, mcp.MaxBatch))
	span.End()
	if err != nil {
		return asGateError(err)
	}
	connectionOf(x.http).MarkKeyed()
	if messages > mcp.MaxBatch {
		return &translate.InputError{Code: translate.CodeValidation,
			Message: fmt.Sprintf("the batch has %d messages, and at most %d are allowed", messages, mcp.MaxBatch)}
	}
	x.http.SetUserValue(mcpCall{}, &message{ctx: x.context(), id: x.id, grant: x.grant, deadline: x.deadline.at.Add(-mcpReserve),
		connection: connectionOf(x.http).Conn, host: string(x.http.Host()),
		authorization: string(x.header.authorization), forwarded: string(x.header.forwarded)})
	e.serve(x.http)
	x.takeBody()
	e.server.holdBody(x)
	setHeader(x.commonHeader(), fasthttp.HeaderCacheControl, "private, no-store")
	return nil
}

// checkOrigin refuses pages of other sites, which browsers send with an Origin, and hosts that are not ours: a name that was pointed to
// this machine (DNS rebinding) makes a foreign page look like one of ours.
func (e *mcpEndpoint) checkOrigin(http *fasthttp.RequestCtx) error {
	host := hostname(string(http.Host()))
	if !e.isOurs(host) {
		return &apiError{code: openapi.CodeOrigin,
			message: "the request is for the host " + strconv.Quote(host) + ": set SARA_BASE_URL to the address by which clients reach the service"}
	}
	origin := string(http.Request.Header.Peek(fasthttp.HeaderOrigin))
	if origin == "" || e.server.sharing.allowed([]byte(origin)) != "" {
		return nil
	}
	if from, err := url.Parse(origin); err == nil && from.Host != "" {
		if page := hostname(from.Host); page == host || netguard.IsLoopback(page) && netguard.IsLoopback(host) {
			return nil
		}
	}
	return &apiError{code: openapi.CodeOrigin, message: "the request comes from a page of another site"}
}

// isOurs reports whether the service can be reached by this host name. An address cannot be rebound.
func (e *mcpEndpoint) isOurs(host string) bool {
	for _, known := range e.hosts {
		if strings.EqualFold(host, known) {
			return true
		}
	}
	return netguard.IsLoopback(host) || net.ParseIP(host) != nil
}

// hostname returns the host without a port, and without the dot that ends an absolute name of the DNS: the same name, of the same owner.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return strings.TrimSuffix(host, ".")
}

// RequestID implements mcp.API.
func (e *mcpEndpoint) RequestID(ctx context.Context) string {
	return ctx.Value(mcpCall{}).(*message).id
}

// Panicked implements mcp.API.
func (e *mcpEndpoint) Panicked(ctx context.Context, value any) {
	bug := panics.New(value)
	e.server.telemetry.causes.write(e.RequestID(ctx), &apiError{code: openapi.CodeInternal, cause: bug})
}

// Get implements mcp.API: it makes a REST request in process, with the key, the address and the trace of the MCP request. It passes all
// stages, like a request from the network.
func (e *mcpEndpoint) Get(ctx context.Context, target string) mcp.Answer {
	var inner fasthttp.RequestCtx
	e.initRequest(ctx, &inner, target)
	e.api(&inner)
	response := &inner.Response
	answer := mcp.Answer{Status: response.StatusCode(), RequestID: string(response.Header.Peek("X-Request-Id")), Body: response.Body()}
	answer.RetryAfter, _ = strconv.Atoi(string(response.Header.Peek(fasthttp.HeaderRetryAfter)))
	return answer
}

// initRequest prepares a request of the message, with what a connection keeps for itself: several are made at a time.
func (e *mcpEndpoint) initRequest(ctx context.Context, inner *fasthttp.RequestCtx, target string) {
	m, s := ctx.Value(mcpCall{}).(*message), e.server
	inner.Init2(&connection{Conn: m.connection}, discardLogger{}, true)
	inner.SetUserValue(mcpCall{}, m)
	header := &inner.Request.Header
	header.SetRequestURI(target)
	header.SetHost(m.host)
	header.Set(fasthttp.HeaderAuthorization, m.authorization)
	if by := s.headers.forwardedBy; by != "" {
		header.Set(by, m.forwarded)
	}
	s.telemetry.tracing.inject(ctx, header)
}

// Totals implements mcp.API.
func (e *mcpEndpoint) Totals(ctx context.Context, property string, days url.Values) []byte {
	m, s := ctx.Value(mcpCall{}).(*message), e.server
	c := &call{id: m.id, started: s.now(), grant: m.grant, part: true}
	s.setWindow(c)
	var err error
	if c.params, err = translate.Parse(translate.Summary(), []byte(days.Encode()), c.window); err != nil {
		return nil
	}
	if c.property, err = s.gate.Property(ctx, m.grant, property); err != nil {
		return nil
	}
	q := c.canonical(translate.SummaryReport(), nil)
	r, err := s.reports.answerAtHand(ctx, &q)
	if err != nil {
		return nil
	}
	return []byte(gjson.GetBytes(r.answer.Head(), "data.totals").Raw)
}

// mcpBody is a HeaderReceived function of the HTTP library: only MCP messages have a body.
func mcpBody(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if string(header.Method()) == fasthttp.MethodPost && string(header.RequestURI()) == pathMCP {
		return fasthttp.RequestConfig{MaxRequestBodySize: mcp.MaxBody}
	}
	return fasthttp.RequestConfig{}
}
