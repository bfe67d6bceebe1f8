package proxy

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/policy/panics"
	"sara/proxy/openapi"
)

// telemetry tells operators what requests are answered with: in metrics, spans, the access log, and the log.
type telemetry struct {
	now     func() time.Time
	metrics *metrics
	tracing tracing
	access  *accessLog
	causes  causeLog
}

func newTelemetry(access AccessLogConfig, tracing tracing, p Process) telemetry {
	m := newMetrics(p.Registry, p.Version)
	return telemetry{
		now: p.Now, metrics: m, tracing: tracing, access: &accessLog{config: access}, causes: causeLog{p.Log, m.panics},
	}
}

// record writes an answered request to metrics, trace and access log. failed is nil for a success.
func (t *telemetry) record(x *exchange, failed *apiError) {
	took := t.now().Sub(x.started)
	status := x.http.Response.StatusCode()
	code := ""
	if failed != nil {
		code = failed.code
		t.causes.write(x.id, failed)
	}
	t.metrics.observe(x.route, status, code, took)
	if x.span != nil {
		t.tracing.end(x, status, code)
	}
	t.access.write(x, status, code, took)
}

// A causeLog logs the causes of errors, which clients do not see, and counts the panics among them.
type causeLog struct {
	log    *slog.Logger
	panics prometheus.Counter
}

// write logs the cause of an error of a request. An error without a cause is the client's own: it is in the access log. A handler of the
// log may keep what it is given, but the id is valid only as long as the call.
func (l causeLog) write(requestID string, e *apiError) {
	if e.cause == nil {
		return
	}
	level := slog.LevelWarn
	if e.code == openapi.CodeInternal {
		level = slog.LevelError
	}
	if errors.As(e, new(*panics.Error)) {
		l.panics.Inc()
	}
	l.log.LogAttrs(context.Background(), level, "request failed", slog.String("request_id", strings.Clone(requestID)), slog.Any("error", e))
}
