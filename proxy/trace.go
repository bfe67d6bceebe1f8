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
func (t *tracing) start(x *exchange) {
	if !t.isOn() {
		return
	}
	x.held = true // the span outlives the request
	ctx := context.Background()
	remote := t.remote(x)
	if remote.IsValid() && t.gate.Recognizes(x.request()) {
		ctx = trace.ContextWithRemoteSpanContext(ctx, remote)
	}
	method := knownMethod(x.http)
	name, attributes := method, []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(method), semconv.URLScheme(t.scheme),
		attribute.String("sara.request_id", x.id), attribute.String("sara.operation", x.route.label())}
	if strings.HasPrefix(x.route.Path, "/") {
		name += " " + x.route.Path
		attributes = append(attributes, semconv.HTTPRoute(x.route.Path))
	}
	_, x.span = t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
}

// remote returns the span that the client sent, not valid without one.
func (t *tracing) remote(x *exchange) trace.SpanContext {
	if t.propagator == nil {
		return trace.SpanContext{}
	}
	headers := propagation.MapCarrier{}
	for _, name := range t.propagator.Fields() {
		headers[name] = string(x.http.Request.Header.Peek(name))
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
func (x *exchange) context() context.Context {
	if x.span == nil {
		return &x.deadline
	}
	return trace.ContextWithSpan(&x.deadline, x.span)
}

// traceID returns the id of the request's trace, empty unless the trace is sampled.
func (x *exchange) traceID() string {
	if x.span == nil || !x.span.SpanContext().IsSampled() {
		return ""
	}
	return x.span.SpanContext().TraceID().String()
}

// end ends the span of an answered request. By convention only a 5xx marks a server span as failed.
func (t *tracing) end(x *exchange, status int, code string) {
	defer x.span.End()
	if !x.span.IsRecording() {
		return
	}
	x.span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	if cacheStatus := x.http.Response.Header.Peek("X-Cache"); len(cacheStatus) > 0 {
		x.span.SetAttributes(attribute.String("sara.cache", string(cacheStatus)))
	}
	if x.grant != nil {
		if remote := t.remote(x); remote.IsValid() && remote.TraceID() != x.span.SpanContext().TraceID() {
			x.span.AddLink(trace.Link{SpanContext: remote})
		}
		x.span.SetAttributes(attribute.String("sara.key", x.grant.Key.ID), attribute.String("sara.account", x.grant.Key.AccountID))
	}
	if x.property != nil {
		x.span.SetAttributes(attribute.String("sara.property", x.property.ID))
	}
	if code != "" {
		x.span.SetAttributes(attribute.String("sara.code", code))
	}
	if status >= fasthttp.StatusInternalServerError {
		x.span.SetStatus(codes.Error, "")
		x.span.SetAttributes(semconv.ErrorTypeKey.String(code))
	}
}
