package proxy

import (
	"context"
	"strings"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"sara/policy"
	"sara/proxy/spans"
)

// TracingConfig configures the spans of a Server. The zero value is that of none.
type TracingConfig struct {
	Provider   trace.TracerProvider          // makes spans; nil: tracing is off
	Propagator propagation.TextMapPropagator // reads the trace context from a request's headers; nil: it is ignored
}

// tracing makes the spans of requests.
type tracing struct {
	tracer     trace.Tracer                  // nil: tracing is off
	propagator propagation.TextMapPropagator // nil: there is none
	scheme     string                        // of the URLs of requests
	gate       *policy.Gate
}

func newTracing(c TracingConfig, baseURL string, gate *policy.Gate) tracing {
	t := tracing{propagator: c.Propagator, gate: gate}
	t.scheme, _, _ = strings.Cut(baseURL, ":")
	if c.Provider != nil {
		t.tracer = c.Provider.Tracer(spans.Scope)
	}
	return t
}

func (t *tracing) isOn() bool { return t.tracer != nil }

// start starts the span of a request, in the trace that its client sent, if any, and if the gate recognizes its key: a client
// decides with the id of a trace or its flag whether the trace is sampled, which costs us and the collector. A key that is not known
// yet is noticed too late, and end links the traces. The span quotes only a known method of the request: the path may name a
// site, and the query may hold search terms.
func (t *tracing) start(c *call) {
	if !t.isOn() {
		return
	}
	c.held = true // the span outlives the request
	ctx := context.Background()
	remote := t.remote(c)
	if remote.IsValid() && t.gate.Recognizes(c.request()) {
		ctx = trace.ContextWithRemoteSpanContext(ctx, remote)
	}
	method := knownMethod(c.http)
	name, attributes := method, []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(method), semconv.URLScheme(t.scheme),
		attribute.String("sara.request_id", c.id), attribute.String("sara.operation", c.route.label())}
	if strings.HasPrefix(c.route.Path, "/") {
		name += " " + c.route.Path
		attributes = append(attributes, semconv.HTTPRoute(c.route.Path))
	}
	_, c.span = t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
}

// remote returns the span that the client sent, not valid without one.
func (t *tracing) remote(c *call) trace.SpanContext {
	if t.propagator == nil {
		return trace.SpanContext{}
	}
	headers := propagation.MapCarrier{}
	for _, name := range t.propagator.Fields() {
		headers[name] = string(c.http.Request.Header.Peek(name))
	}
	return trace.SpanContextFromContext(t.propagator.Extract(context.Background(), headers))
}

// inject writes the span of a context into the header of a request that it makes.
func (t *tracing) inject(ctx context.Context, header *fasthttp.RequestHeader) {
	if t.propagator != nil {
		t.propagator.Inject(ctx, headerCarrier{header})
	}
}

// A headerCarrier writes the context of a trace into the header of a request.
type headerCarrier struct{ *fasthttp.RequestHeader }

var _ propagation.TextMapCarrier = headerCarrier{}

func (h headerCarrier) Get(name string) string { return string(h.Peek(name)) }
func (h headerCarrier) Keys() []string         { return nil }

// knownMethod returns the method of a request, _OTHER for one that is not standard (OpenTelemetry semantic conventions).
func knownMethod(http *fasthttp.RequestCtx) string {
	switch method := string(http.Method()); method {
	case fasthttp.MethodGet, fasthttp.MethodHead, fasthttp.MethodPost, fasthttp.MethodPut, fasthttp.MethodPatch,
		fasthttp.MethodDelete, fasthttp.MethodConnect, fasthttp.MethodOptions, fasthttp.MethodTrace:
		return method
	}
	return "_OTHER"
}

// context returns the context of the request: its deadline, and its span if it is traced.
func (c *call) context() context.Context {
	if c.span == nil {
		return &c.deadline
	}
	return trace.ContextWithSpan(&c.deadline, c.span)
}

// step starts a child span for a stage that may take time. Without tracing it does not read the context.
func (c *call) step(ctx context.Context, name string) (context.Context, spans.Span) {
	if c.span == nil {
		return ctx, spans.Span{}
	}
	return spans.Start(ctx, name)
}

// traceID returns the id of the request's trace, empty unless the trace is sampled.
func (c *call) traceID() string {
	if c.span == nil || !c.span.SpanContext().IsSampled() {
		return ""
	}
	return c.span.SpanContext().TraceID().String()
}

// end ends the span of an answered request. By convention only a 5xx marks a server span as failed.
func (t *tracing) end(c *call, status int, code string) {
	defer c.span.End()
	if !c.span.IsRecording() {
		return
	}
	c.span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	if cacheStatus := c.http.Response.Header.Peek("X-Cache"); len(cacheStatus) > 0 {
		c.span.SetAttributes(attribute.String("sara.cache", string(cacheStatus)))
	}
	if c.grant != nil {
		if remote := t.remote(c); remote.IsValid() && remote.TraceID() != c.span.SpanContext().TraceID() {
			c.span.AddLink(trace.Link{SpanContext: remote})
		}
		c.span.SetAttributes(attribute.String("sara.key", c.grant.Key.ID), attribute.String("sara.account", c.grant.Key.AccountID))
	}
	if c.property != nil {
		c.span.SetAttributes(attribute.String("sara.property", c.property.ID))
	}
	if code != "" {
		c.span.SetAttributes(attribute.String("sara.code", code))
	}
	if status >= fasthttp.StatusInternalServerError {
		c.span.SetStatus(codes.Error, "")
		c.span.SetAttributes(semconv.ErrorTypeKey.String(code))
	}
}
