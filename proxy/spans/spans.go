// Package spans makes OpenTelemetry spans for the steps of a traced request, as children of the span in the request's context.
//
// It starts no trace. Without a recording span in the context, as in background jobs and without tracing, it does and allocates
// nothing. Names and values are constants and identifiers, never text of a client or a server: traces must not hold secrets.
//
// All functions are safe for concurrent use. None of them fails.
package spans

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the instrumentation scope of the spans.
const Scope = "sara/proxy"

// A Span is one step of a request. The zero Span is valid and does nothing.
type Span struct{ span trace.Span }

// Start starts a step of the request in ctx. The caller must call End.
func Start(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, trace.SpanFromContext(ctx), name, trace.SpanKindInternal)
}

// StartCall starts a step that calls another server.
func StartCall(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, trace.SpanFromContext(ctx), name, trace.SpanKindClient)
}

// Detach starts a step on a context of its own: it may outlive the request that started it, and may serve other requests too.
// The step is in the trace of the request in origin, and linked to its span.
func Detach(ctx, origin context.Context, name string) (context.Context, Span) {
	parent := trace.SpanFromContext(origin)
	step, span := start(trace.ContextWithSpan(ctx, parent), parent, name, trace.SpanKindInternal)
	if span.span == nil {
		return ctx, span
	}
	span.span.AddLink(trace.Link{SpanContext: parent.SpanContext()})
	return step, span
}

func start(ctx context.Context, parent trace.Span, name string, kind trace.SpanKind) (context.Context, Span) {
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := parent.TracerProvider().Tracer(Scope).Start(ctx, name, trace.WithSpanKind(kind))
	return ctx, Span{span}
}

// Event adds an event with a number, such as an attempt, to the span of ctx.
func Event(ctx context.Context, name string, n int) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent(name, trace.WithAttributes(attribute.Int("sara."+name, n)))
	}
}

// Set sets an attribute of the span.
func (s Span) Set(name, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(name, value))
	}
}

// SetInt sets an integer attribute of the span.
func (s Span) SetInt(name string, value int) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int(name, value))
	}
}

// Link links the span to a step that it waits for, possibly of another request.
func (s Span) Link(other Span) {
	if s.span != nil && other.span != nil {
		s.span.AddLink(trace.Link{SpanContext: other.span.SpanContext()})
	}
}

// Fail marks the step as failed. It takes the kind of the error, because the text of an error may quote the request.
func (s Span) Fail(kind string) {
	if s.span != nil {
		s.span.SetStatus(codes.Error, "")
		s.span.SetAttributes(semconv.ErrorTypeKey.String(kind))
	}
}

// End ends the step.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}
