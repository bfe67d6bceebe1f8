package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"sara/policy/redistest"
	"sara/proxy/upstream/gscsim"
)

// tracedWorld is a world that records spans.
func tracedWorld(t *testing.T, adjust ...func(*Config)) (*world, *tracetest.InMemoryExporter) {
	t.Helper()
	kept := tracetest.NewInMemoryExporter()
	w := newWorld(t, append(adjust, func(c *Config) {
		c.Tracing.Provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))
		c.Tracing.Propagator = propagation.TraceContext{}
	})...)
	return w, kept
}

// named returns the only span of a name.
func named(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	var found []tracetest.SpanStub
	for _, span := range spans {
		if span.Name == name {
			found = append(found, span)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans are named %q, want 1; all are %v", len(found), name, namesOf(spans))
	}
	return found[0]
}

func namesOf(spans tracetest.SpanStubs) (names []string) {
	for _, span := range spans {
		names = append(names, span.Name)
	}
	return names
}

func attributesOf(span tracetest.SpanStub) map[string]string {
	values := make(map[string]string)
	for _, a := range span.Attributes {
		values[string(a.Key)] = a.Value.String()
	}
	return values
}

func wantAttributes(t *testing.T, span tracetest.SpanStub, want map[string]string) {
	t.Helper()
	got := attributesOf(span)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %s is %q, want %q", span.Name, name, got[name], value)
		}
	}
}

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan   = "00f067aa0ba902b7"
	summaryRoute = "/v1/properties/{id}/summary"
)

func TestTraceHasASpanForEachStep(t *testing.T) {
	w, kept := tracedWorld(t)
	w.get("pro", "/v1/me").ok(t)
	for _, lookup := range []string{"look up edition", "look up keys"} {
		if spans := kept.GetSpans(); named(t, spans, lookup).Parent.SpanID() != named(t, spans, "admit").SpanContext.SpanID() {
			t.Errorf("%s is no child of admit", lookup)
		}
	}
	kept.Reset()
	var sent http.Header // to Search Console
	var once sync.Once
	w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		once.Do(func() { sent = r.Header.Clone() })
		w.sim.ServeHTTP(rw, r)
	})
	const secretWord = "hunter2"
	path := w.path("main", "/summary")
	r := w.getWith("pro", path, []string{"date_range", "last_28d", "filters",
		`[{"dimension":"query","operator":"contains","value":"` + secretWord + `"}]`},
		"Traceparent", "00-"+clientTrace+"-"+clientSpan+"-01", "Tracestate", "shop=1")
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	spans := kept.GetSpans()
	server := named(t, spans, "GET "+summaryRoute)
	if server.SpanKind != trace.SpanKindServer || server.Parent.SpanID().String() != clientSpan || !server.Parent.IsRemote() ||
		server.SpanContext.TraceState().String() != "shop=1" || server.Status.Code != codes.Unset {
		t.Errorf("the request's span is %+v", server)
	}
	requestID := r.header.Get("X-Request-Id")
	wantAttributes(t, server, map[string]string{
		"http.request.method": "GET", "http.route": summaryRoute, "http.response.status_code": "200", "url.scheme": "http",
		"sara.request_id": requestID, "sara.operation": "getSummary", "sara.cache": "miss", "sara.key": w.keyIDs["pro"],
		"sara.property": w.properties["main"].ID, "sara.code": "",
	})
	parents := map[string]string{"admit": server.Name, "look up property": server.Name,
		"wait for rows": server.Name, "fill": server.Name, "charge": "fill", "ask Search Console": "fill",
		"POST /webmasters/v3/sites/{site}/searchAnalytics/query": "ask Search Console"}
	for child, parent := range parents {
		span := named(t, spans, child)
		if span.Parent.SpanID() != named(t, spans, parent).SpanContext.SpanID() || span.SpanContext.TraceID().String() != clientTrace {
			t.Errorf("%s is no child of %s in the client's trace", child, parent)
		}
	}
	fill := named(t, spans, "fill")
	if len(fill.Links) != 1 || fill.Links[0].SpanContext.SpanID() != server.SpanContext.SpanID() {
		t.Errorf("the fill is linked to %v, want the request that started it", fill.Links)
	}
	if waiting := named(t, spans, "wait for rows"); len(waiting.Links) != 1 || waiting.Links[0].SpanContext.SpanID() != fill.SpanContext.SpanID() {
		t.Errorf("the waiting request is linked to %v, want the fill", waiting.Links)
	}
	call := named(t, spans, "POST /webmasters/v3/sites/{site}/searchAnalytics/query")
	wantAttributes(t, call, map[string]string{"http.request.method": "POST", "http.response.status_code": "200", "server.address": "127.0.0.1"})
	if call.SpanKind != trace.SpanKindClient {
		t.Errorf("the call's kind is %v", call.SpanKind)
	}
	if sent.Get("Traceparent") != "" || sent.Get("Tracestate") != "" {
		t.Errorf("Search Console is sent the trace: %v", sent)
	}
	for name, value := range map[string]string{"trace_id": clientTrace, "request_id": requestID, "account": attributesOf(server)["sara.account"]} {
		if line := w.logged(); !strings.Contains(line, `"`+name+`":"`+value+`"`) {
			t.Errorf("in the request's line %s is not %q:\n%s", name, value, line)
		}
	}
	all := fmt.Sprintf("%+v", spans)
	for _, secret := range []string{secretWord, w.keys["pro"], "Bearer", "example.com", "last_28d", "refresh-owner"} {
		if strings.Contains(all, secret) {
			t.Errorf("the trace holds %q", secret)
		}
	}
}

func TestTraceMarksServerErrors(t *testing.T) {
	w, kept := tracedWorld(t)
	status := func(name string, r response) tracetest.SpanStub {
		t.Helper()
		span := named(t, kept.GetSpans(), name)
		wantAttributes(t, span, map[string]string{"sara.code": r.code(), "http.response.status_code": fmt.Sprint(r.status),
			"sara.request_id": r.header.Get("X-Request-Id")})
		return span
	}
	r := w.get("", "/v1/me")
	if span := status("GET /v1/me", r); r.status != http.StatusUnauthorized || span.Status.Code != codes.Unset {
		t.Errorf("%d: a client error marks the span as failed: %v", r.status, span.Status)
	}
	kept.Reset()
	r = w.get("pro", "/v1/unknown-path-with-hunter2")
	if span := status("GET", r); r.status != http.StatusNotFound || attributesOf(span)["http.route"] != "" {
		t.Errorf("%d %v: a path that does not exist is no route", r.status, span.Attributes)
	}
	kept.Reset()
	w.faults(gscsim.Faults{Status: 500})
	r = w.get("pro", w.path("main", "/summary"), "filters", `[{"dimension":"query","operator":"contains","value":"hunter2"}]`)
	span := status("GET "+summaryRoute, r)
	if r.status != http.StatusServiceUnavailable || span.Status.Code != codes.Error {
		t.Errorf("%d: a server error does not mark the span as failed: %v", r.status, span.Status)
	}
	asking := named(t, kept.GetSpans(), "ask Search Console")
	wantAttributes(t, asking, map[string]string{"error.type": "unavailable"})
	if len(asking.Events) != 3 {
		t.Errorf("%d attempts are in the trace, want 3", len(asking.Events))
	}
	if strings.Contains(fmt.Sprintf("%+v", kept.GetSpans()), "hunter2") {
		t.Error("the trace quotes the request")
	}
}

func TestUnsampledRequestHasNoTrace(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	w := newWorld(t, func(c *Config) {
		c.Tracing.Provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept), sdktrace.WithSampler(sdktrace.NeverSample()))
	})
	if r := w.get("pro", w.path("main", "/queries")); r.status != http.StatusOK {
		t.Fatal(r.status)
	}
	if spans := kept.GetSpans(); len(spans) > 0 || strings.Contains(w.logged(), "trace_id") {
		t.Errorf("spans %v, log %s", namesOf(spans), w.logged())
	}
}

// A client without a known key decides neither by the id of a trace nor by its flag whether a request is sampled.
func TestTraceOfStrangersIsNotContinued(t *testing.T) {
	const lowestTrace = "00000000000000000000000000000001" // in every sample by ratio
	w, kept := tracedWorld(t, func(c *Config) { c.TrustedProxyHeader = "X-Forwarded-For" })
	ask := func(key, path, client, traceID string) tracetest.SpanStub {
		t.Helper()
		kept.Reset()
		w.getWith(key, path, nil, "X-Forwarded-For", client, "Traceparent", "00-"+traceID+"-"+clientSpan+"-01")
		return named(t, kept.GetSpans(), "GET "+path)
	}
	w.keys["unknown"] = guess()
	for _, key := range []string{"", "unknown", "revoked", "expired"} {
		for range 2 { // it is in the cache of the gate the second time
			if span := ask(key, "/v1/me", "192.0.2.7", lowestTrace); span.Parent.IsValid() ||
				span.SpanContext.TraceID().String() == lowestTrace || len(span.Links) > 0 {
				t.Errorf("%q: the span is %+v", key, span)
			}
		}
	}
	first := ask("elsewhere", "/v1/me", "192.0.2.7", clientTrace)
	if first.Parent.IsValid() || len(first.Links) != 1 || first.Links[0].SpanContext.TraceID().String() != clientTrace {
		t.Errorf("a key that was not known yet: the span is %+v", first)
	}
	if next := ask("elsewhere", "/v1/me", "192.0.2.7", clientTrace); next.SpanContext.TraceID().String() != clientTrace || len(next.Links) > 0 {
		t.Errorf("a known key: the span is %+v", next)
	}
	if stolen := ask("elsewhere", "/v1/me", "192.0.3.7", clientTrace); stolen.Parent.IsValid() {
		t.Errorf("a key from another address: the span is %+v", stolen)
	}
	w.advance(6 * time.Minute)
	if later := ask("elsewhere", "/v1/me", "192.0.2.7", clientTrace); later.Parent.IsValid() || len(later.Links) != 1 {
		t.Errorf("a key that was not used for long: the span is %+v", later)
	}
}

func TestTraceContextIsIgnoredWithoutPropagator(t *testing.T) {
	w, kept := tracedWorld(t, func(*Config) {})
	w.server.telemetry.tracing.propagator = nil
	w.get("pro", "/v1/me").ok(t)
	kept.Reset()
	w.getWith("pro", "/v1/me", nil, "Traceparent", "00-"+clientTrace+"-"+clientSpan+"-01")
	if span := named(t, kept.GetSpans(), "GET /v1/me"); span.Parent.IsValid() || span.SpanContext.TraceID().String() == clientTrace {
		t.Errorf("the span is in the client's trace: %+v", span.SpanContext)
	}
}

func TestTraceHasRedisArchiveAndDetachedFills(t *testing.T) {
	t.Parallel()
	history, withHistory := kept(t)
	w, spans := tracedWorld(t, withHistory, over(redistest.Single(t).Client()))
	w.chronicle(history, "main", "sc-domain:example.com").keep(t, "2025-01-01", "2025-01-02")
	span := func(name string, of response) tracetest.SpanStub {
		t.Helper()
		if of.status != http.StatusOK {
			t.Fatalf("%d %s", of.status, of.body)
		}
		found, server := named(t, spans.GetSpans(), name), named(t, spans.GetSpans(), "GET /v1/properties/{id}/devices")
		if found.SpanContext.TraceID() != server.SpanContext.TraceID() {
			t.Errorf("%s is not in the request's trace", name)
		}
		spans.Reset()
		return found
	}
	path := w.path("main", "/devices")
	wantAttributes(t, span("read archive", w.get("pro", path, "start_date", "2025-01-01", "end_date", "2025-01-02")),
		map[string]string{"sara.dimension": "device", "sara.days": "2"})
	if reading := span("read Redis", w.get("pro", path)); reading.SpanKind != trace.SpanKindClient {
		t.Errorf("reading Redis is %v", reading.SpanKind)
	}
	spans.Reset()
	w.advance(2 * freshAtAnchor)
	refilled := w.get("pro", path) // from the stale copy
	w.server.reports.cache.Close() // waits for the fill
	if fill := span("fill", refilled); refilled.header.Get("X-Cache") != "hit" || len(fill.Links) != 1 {
		t.Errorf("%s: the fill is linked to %v", refilled.header.Get("X-Cache"), fill.Links)
	}
}
