// Package spans tells where the time of a traced request goes: in OpenTelemetry spans below the one that the request's context
// carries.
//
// It begins no trace. Where a context carries no span, or one that is not recorded, nothing here does or allocates anything: so
// it is in a process without traces, and so it is in the runs in the background. Names and values are texts of ours and
// identifiers, never what a client or a server wrote: nobody looks for a secret in a trace.
//
// All of it is safe for concurrent use, and nothing fails.
package spans

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Scope names what makes the spans.
const Scope = "sara/proxy"

// A Span is one step of a request. The zero Span is none.
type Span struct{ span trace.Span }

// Start begins a step of what ctx is for. It needs an End.
func Start(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, trace.SpanFromContext(ctx), name, trace.SpanKindInternal)
}

// StartCall begins a step that waits for another server.
func StartCall(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, trace.SpanFromContext(ctx), name, trace.SpanKindClient)
}

// Detach begins, on a context of its own, a step that may outlive the request which asked for it, and that may serve others too.
// It is in the trace of the one that asked, and linked to its span.
func Detach(ctx, asked context.Context, name string) (context.Context, Span) {
	asker := trace.SpanFromContext(asked)
	step, span := start(trace.ContextWithSpan(ctx, asker), asker, name, trace.SpanKindInternal)
	if span.span == nil {
		return ctx, span
	}
	span.span.AddLink(trace.Link{SpanContext: asker.SpanContext()})
	return step, span
}

func start(ctx context.Context, parent trace.Span, name string, kind trace.SpanKind) (context.Context, Span) {
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := parent.TracerProvider().Tracer(Scope).Start(ctx, name, trace.WithSpanKind(kind))
	return ctx, Span{span}
}

// Event notes in the span of ctx that its step came to the n-th of something.
func Event(ctx context.Context, name string, n int) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent(name, trace.WithAttributes(attribute.Int("sara."+name, n)))
	}
}

// Set gives the span an attribute.
func (s Span) Set(name, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(name, value))
	}
}

// SetInt gives the span an attribute that is a number.
func (s Span) SetInt(name string, value int) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int(name, value))
	}
}

// Link says that the step waits for another one, maybe of another request.
func (s Span) Link(other Span) {
	if s.span != nil && other.span != nil {
		s.span.AddLink(trace.Link{SpanContext: other.span.SpanContext()})
	}
}

// Fail marks the step as failed, by the kind of its error: the text of an error may quote what was asked.
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
