package main

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

// flushLimit is how long the spans that are left may take to be sent when the service stops.
const flushLimit = 5 * time.Second

// traces are where a service sends its spans.
type traces struct {
	provider   *trace.TracerProvider
	exporter   *tellingExporter
	propagator propagation.TextMapPropagator // nil: clients have no say in traces
	limit      time.Duration                 // of close
}

// openTraces returns where traces go, nil if they are off. It does not connect before there is a span to send.
func openTraces(ctx context.Context, s settings.Traces, log *slog.Logger) (*traces, error) {
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
		return nil, settings.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT", "%v; write it with https if the collector has certificates", err)
	}
	// What the environment says of the service goes before what is said here.
	self, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "sara"), attribute.String("service.version", buildVersion().Version)), resource.WithFromEnv())
	if err != nil {
		return nil, settings.Errorf("OTEL_RESOURCE_ATTRIBUTES", "%v", err)
	}
	telling := &tellingExporter{SpanExporter: exporter, log: log, secrets: s.Secrets, now: time.Now}
	t := &traces{exporter: telling, limit: flushLimit, provider: trace.NewTracerProvider(trace.WithBatcher(telling), trace.WithResource(self))}
	if s.Propagate {
		t.propagator = propagation.TraceContext{}
	}
	return t, nil
}

// close sends what is left, for as long as the limit allows. That ctx has ended is why it is called.
func (t *traces) close(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	limited, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	// The provider does not cut off what is being sent, but waits; the exporter does.
	stop := context.AfterFunc(limited, func() { t.exporter.stop(ctx) })
	defer stop()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.exporter.tell(ctx, err)
	}
}

// A tellingExporter tells the log when spans cannot be sent: at once, and then once a minute at most. The libraries would
// tell it on standard error, and every time.
type tellingExporter struct {
	trace.SpanExporter
	log     *slog.Logger
	secrets []string // what must not be told, even if the collector says it
	now     func() time.Time

	// The exporter is asked by one goroutine at a time.
	lost int       // spans since it was told
	told time.Time // zero: never, or spans were sent since
}

const (
	tellPause   = time.Minute
	longestTold = 300 // runes
)

// ExportSpans implements trace.SpanExporter.
func (e *tellingExporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		e.told = time.Time{}
		return nil
	}
	e.lost += len(spans)
	if e.told.IsZero() || e.now().Sub(e.told) >= tellPause {
		e.tell(ctx, err)
	}
	return nil
}

func (e *tellingExporter) tell(ctx context.Context, err error) {
	text := err.Error()
	for _, secret := range e.secrets {
		text = strings.ReplaceAll(text, secret, "[secret]")
	}
	if runes := []rune(text); len(runes) > longestTold {
		text = string(runes[:longestTold]) + "…"
	}
	e.log.WarnContext(ctx, "traces cannot be sent", slog.String("error", text), slog.Int("spans_lost", e.lost))
	e.told, e.lost = e.now(), 0
}

// stop cuts off what is being sent.
func (e *tellingExporter) stop(ctx context.Context) {
	if err := e.Shutdown(ctx); err != nil {
		e.log.WarnContext(ctx, "traces do not end", slog.Any("error", err))
	}
}
