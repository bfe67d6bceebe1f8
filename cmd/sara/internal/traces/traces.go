// Package traces sends the spans of the service to an OpenTelemetry collector. A collector that refuses or hangs delays no
// request: it costs its spans, and at most one line in the log a minute.
package traces

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"sara/cmd/sara/internal/settings"
)

// flushTimeout bounds sending the remaining spans at a shutdown.
const flushTimeout = 5 * time.Second

// Exporter exports the spans of a service.
type Exporter struct {
	Provider   *trace.TracerProvider
	Propagator propagation.TextMapPropagator // nil: ignore the trace ids of clients

	exporter *loggingExporter
	timeout  time.Duration // of Close
}

// Open opens the exporter; nil if traces are off. It connects once there is a span to send.
func Open(ctx context.Context, s settings.Traces, version string, log *slog.Logger) (*Exporter, error) {
	if !s.On {
		return nil, nil
	}
	var options []otlptracehttp.Option
	if !s.HasEndpoint {
		// The library's default is https, unlike that of the specification.
		options = append(options, otlptracehttp.WithEndpointURL("http://localhost:4318/v1/traces"))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, settings.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT", "%v; use https if the collector requires TLS", err)
	}
	// The attributes of the environment come last, since they win.
	self, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "sara"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, settings.Errorf("OTEL_RESOURCE_ATTRIBUTES", "%v", err)
	}
	logging := &loggingExporter{SpanExporter: exporter, log: log, secrets: s.Secrets, now: time.Now}
	x := &Exporter{exporter: logging, timeout: flushTimeout, Provider: trace.NewTracerProvider(trace.WithBatcher(logging), trace.WithResource(self))}
	if s.Propagate {
		x.Propagator = propagation.TraceContext{}
	}
	return x, nil
}

// Close sends the remaining spans, until the timeout. ctx has usually ended by then.
func (x *Exporter) Close(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	limited, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	// Only the exporter can cancel a request in flight; the provider waits for it.
	stop := context.AfterFunc(limited, func() { x.exporter.stop(ctx) })
	defer stop()
	if err := x.Provider.Shutdown(ctx); err != nil {
		x.exporter.warn(ctx, err)
	}
}

// A loggingExporter logs failures to send spans, throttled to one line a minute. The libraries would print each to standard
// error.
type loggingExporter struct {
	trace.SpanExporter
	log     *slog.Logger
	secrets []string // masked in the collector's answers
	now     func() time.Time

	// The provider calls the exporter from one goroutine at a time.
	lost   int       // spans since the last warning
	warned time.Time // zero: never, or a later export succeeded
}

const (
	warnInterval = time.Minute
	longestError = 300 // runes
)

// ExportSpans implements trace.SpanExporter.
func (e *loggingExporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		e.warned = time.Time{}
		return nil
	}
	e.lost += len(spans)
	if e.warned.IsZero() || e.now().Sub(e.warned) >= warnInterval {
		e.warn(ctx, err)
	}
	return nil
}

func (e *loggingExporter) warn(ctx context.Context, err error) {
	text := err.Error()
	for _, secret := range e.secrets {
		text = strings.ReplaceAll(text, secret, "[secret]")
	}
	if runes := []rune(text); len(runes) > longestError {
		text = string(runes[:longestError]) + "…"
	}
	e.log.WarnContext(ctx, "sending traces failed", slog.String("error", text), slog.Int("spans_lost", e.lost))
	e.warned, e.lost = e.now(), 0
}

// stop cancels the request in flight.
func (e *loggingExporter) stop(ctx context.Context) {
	if err := e.Shutdown(ctx); err != nil {
		e.log.WarnContext(ctx, "stopping the trace exporter failed", slog.Any("error", err))
	}
}
