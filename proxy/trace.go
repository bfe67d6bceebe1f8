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

	"sara/proxy/spans"
)

// begin begins the span of a request, in the trace that its client names. Of what the client wrote it says nothing but a
// method that is known: the path may name a site, and the query what people searched for.
func (s *Server) startSpan(c *call) {
	ctx := context.Background()
	if names := s.config.Propagator; names != nil {
		headers := propagation.MapCarrier{}
		for _, name := range names.Fields() {
			headers[name] = string(c.http.Request.Header.Peek(name))
		}
		ctx = names.Extract(ctx, headers)
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

// knownMethod returns the method of a request as the conventions have it.
func knownMethod(http *fasthttp.RequestCtx) string {
	switch method := string(http.Method()); method {
	case fasthttp.MethodGet, fasthttp.MethodHead, fasthttp.MethodPost, fasthttp.MethodPut, fasthttp.MethodPatch,
		fasthttp.MethodDelete, fasthttp.MethodConnect, fasthttp.MethodOptions, fasthttp.MethodTrace:
		return method
	}
	return "_OTHER"
}

// context returns what the work for the request runs on: its deadline, and its span if it has one.
func (c *call) context() context.Context {
	if c.span == nil {
		return &c.deadline
	}
	return trace.ContextWithSpan(&c.deadline, c.span)
}

// step begins a part of the request that may take time. A request that is not traced does not even look at its context.
func (c *call) step(ctx context.Context, name string) (context.Context, spans.Span) {
	if c.span == nil {
		return ctx, spans.Span{}
	}
	return spans.Start(ctx, name)
}

// traceID returns the id of the request's trace, empty if that is not kept.
func (c *call) traceID() string {
	if c.span == nil || !c.span.SpanContext().IsSampled() {
		return ""
	}
	return c.span.SpanContext().TraceID().String()
}

// endSpan ends the span of a request that was answered. What the client did wrong is no error of the server's.
func (c *call) endSpan(status int, code string) {
	defer c.span.End()
	if !c.span.IsRecording() {
		return
	}
	c.span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	if word := c.http.Response.Header.Peek("X-Cache"); len(word) > 0 {
		c.span.SetAttributes(attribute.String("sara.cache", string(word)))
	}
	if c.grant != nil {
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
