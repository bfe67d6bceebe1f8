package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"sara/cmd/sara/internal/clitest"
)

// A receiver is an OpenTelemetry collector that keeps the spans that it receives.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []*span.Span
	self   []*common.KeyValue // the resource of the spans
	header http.Header
	err    error
}

func newReceiver(t *testing.T) *receiver {
	r := new(receiver)
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		body, err := io.ReadAll(request.Body)
		var sent collector.ExportTraceServiceRequest
		if r.err = errors.Join(r.err, err, proto.Unmarshal(body, &sent)); request.URL.Path != "/v1/traces" {
			r.err = errors.Join(r.err, errors.New("spans are sent to "+request.URL.Path))
		}
		r.header = request.Header.Clone()
		for _, of := range sent.ResourceSpans {
			r.self = of.Resource.Attributes
			for _, scope := range of.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func valueOf(attributes []*common.KeyValue, name string) string {
	for _, a := range attributes {
		if a.Key == name {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func testTraceArrives(t *testing.T, binary string) {
	people, _ := clitest.Simulate(t)
	r := newReceiver(t)
	c := clitest.New(t, sara).Against(people)
	const secret = "hunter2-of-the-collector"
	p, base, _ := serving(t, binary, append(c.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_EXPORTER_OTLP_HEADERS=api-key="+secret,
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test", "SARA_LOG_FORMAT=json", "SARA_ACCESS_LOG_SAMPLE=1.0"))
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	c.OK("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	c.WithProperty()
	key, _ := c.Object(clitest.KeyMembers+" key", "key", "create", "ann@example.com", "--name", "test")["key"].(string)
	var answered struct {
		Meta struct {
			RequestID string `json:"request_id"`
		}
	}
	if err := json.Unmarshal([]byte(clitest.WantStatus(t, 200, base+"/v1/properties/shop/queries", key).Body), &answered); err != nil {
		t.Fatal(err)
	}
	p.stopped() // the shutdown flushes all spans
	r.mu.Lock()
	defer r.mu.Unlock()
	id := answered.Meta.RequestID
	at := slices.IndexFunc(r.spans, func(s *span.Span) bool { return valueOf(s.Attributes, "sara.request_id") == id })
	if r.err != nil || id == "" || at < 0 {
		t.Fatalf("%v: of %d spans, none is of the request %q\n%s", r.err, len(r.spans), id, p.stderr)
	}
	request := r.spans[at]
	if request.Name != "GET /v1/properties/{id}/queries" || request.Kind != span.Span_SPAN_KIND_SERVER {
		t.Errorf("the request's span is %v", request)
	}
	asks := slices.ContainsFunc(r.spans, func(s *span.Span) bool {
		return s.Name == "ask Search Console" && bytes.Equal(s.TraceId, request.TraceId)
	})
	if !asks {
		t.Error("the trace does not show the call of Search Console")
	}
	if got := valueOf(r.self, "service.name") + " " + valueOf(r.self, "deployment.environment.name"); got != "sara test" ||
		r.header.Get("Api-Key") != secret {
		t.Errorf("the spans come from %v with %v", r.self, r.header)
	}
	logged := false
	for line := range strings.Lines(p.stderr.String()) {
		logged = logged || strings.Contains(line, id) && strings.Contains(line, `"trace_id":"`+hex.EncodeToString(request.TraceId)+`"`)
	}
	if !logged || strings.Contains(p.stderr.String(), secret) {
		t.Errorf("no line has the ids of the request and its trace, or a line has the header:\n%s", p.stderr)
	}
}
