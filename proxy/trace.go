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

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/spans"
)

// startSpan starts the span of a request, in the trace that its client sent, if any, and if the gate recognizes its key: a client
// decides with the id of a trace or its flag whether the trace is sampled, which costs us and the collector. A key that is not known
// yet is noticed too late, and endSpan links the traces. The span quotes only a known method of the request: the path may name a
// site, and the query may hold search terms.
func (s *Server) startSpan(c *call) {
	ctx := context.Background()
	remote := s.remoteSpan(c)
	if remote.IsValid() && s.gate.Recognizes(c.request()) {
		ctx = trace.ContextWithRemoteSpanContext(ctx, remote)
	}
	method := knownMethod(c.http)
	scheme, _, _ := strings.Cut(s.config.BaseURL, ":")
	name, attributes := method, []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(method), semconv.URLScheme(scheme),
		attribute.String("sara.request_id", c.id), attribute.String("sara.operation", c.route.label())}
	if strings.HasPrefix(c.route.Path, "/") {
		name += " " + c.route.Path
		attributes = append(attributes, semconv.HTTPRoute(c.route.Path))
	}
	_, c.span = s.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
}

// remoteSpan returns the span that the client sent, not valid without one.
func (s *Server) remoteSpan(c *call) trace.SpanContext {
	propagator := s.config.Propagator
	if propagator == nil {
		return trace.SpanContext{}
	}
	headers := propagation.MapCarrier{}
	for _, name := range propagator.Fields() {
		headers[name] = string(c.http.Request.Header.Peek(name))
	}
	return trace.SpanContextFromContext(propagator.Extract(context.Background(), headers))
}

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

// endSpan ends the span of an answered request. By convention only a 5xx marks a server span as failed.
func (s *Server) endSpan(c *call, status int, code string) {
	defer c.span.End()
	if !c.span.IsRecording() {
		return
	}
	c.span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	if cacheStatus := c.http.Response.Header.Peek("X-Cache"); len(cacheStatus) > 0 {
		c.span.SetAttributes(attribute.String("sara.cache", string(cacheStatus)))
	}
	if c.grant != nil {
		if remote := s.remoteSpan(c); remote.IsValid() && remote.TraceID() != c.span.SpanContext().TraceID() {
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

// directory traces the lookups of the policy gate in the store.
type directory struct {
	*sqlstore.Store
}

var _ policy.Directory = directory{}

// Edition implements policy.Directory.
func (d directory) Edition(ctx context.Context) (uint64, error) {
	ctx, span := spans.StartCall(ctx, "look up edition")
	defer span.End()
	return d.Store.Edition(ctx)
}

// FindKeys implements policy.Directory.
func (d directory) FindKeys(ctx context.Context, hashes []policy.Hash) (map[policy.Hash]policy.Key, error) {
	ctx, span := spans.StartCall(ctx, "look up keys")
	defer span.End()
	return d.Store.FindKeys(ctx, hashes)
}

// FindProperties implements policy.Directory.
func (d directory) FindProperties(ctx context.Context, personID, workspaceID, reference string) ([]policy.Property, error) {
	ctx, span := spans.StartCall(ctx, "look up property")
	defer span.End()
	return d.Store.FindProperties(ctx, personID, workspaceID, reference)
}
