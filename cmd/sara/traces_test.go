package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// environmentOf looks up the variables of a list of NAME=VALUE.
func environmentOf(variables ...string) traceEnvironment {
	return func(name string) string {
		for _, variable := range variables {
			if known, value, _ := strings.Cut(variable, "="); known == name {
				return value
			}
		}
		return ""
	}
}

func TestTracesAreOffUnlessSomebodyWantsThem(t *testing.T) {
	for _, test := range []struct {
		variables []string
		on        bool
	}{
		{nil, false},
		{[]string{"OTEL_SERVICE_NAME=shop", "OTEL_TRACES_SAMPLER=always_on", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, false},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT= "}, false},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318"}, true},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://collector:4318/v1/traces"}, true},
		{[]string{"OTEL_TRACES_EXPORTER=otlp"}, true},
		{[]string{"OTEL_TRACES_EXPORTER=none", "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318"}, false},
		{[]string{"OTEL_SDK_DISABLED=TRUE", "OTEL_TRACES_EXPORTER=otlp"}, false},
		{[]string{"OTEL_SDK_DISABLED=true", "OTEL_TRACES_EXPORTER=zipkin"}, false},
	} {
		e := environmentOf(test.variables...)
		traces, err := e.open(context.Background(), slog.New(slog.DiscardHandler))
		if err != nil || (traces != nil) != test.on {
			t.Errorf("%v: traces %v, %v, want on %v", test.variables, traces, err, test.on)
		}
		if traces != nil {
			traces.close(context.Background())
		}
	}
}

func TestAWrongVariableOfTracesIsNamedWithTheFix(t *testing.T) {
	const on, everything = "OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_"
	for _, test := range []struct{ variable, want string }{
		{"OTEL_SDK_DISABLED=yes", `OTEL_SDK_DISABLED: "yes" is neither true nor false`},
		{"OTEL_TRACES_EXPORTER=zipkin", `OTEL_TRACES_EXPORTER: "zipkin" is neither otlp nor none; sara sends traces by OTLP alone: choose otlp`},
		{everything + "PROTOCOL=grpc", `OTEL_EXPORTER_OTLP_PROTOCOL: grpc is not built into sara; choose http/protobuf`},
		{everything + "TRACES_PROTOCOL=http", `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http" is neither http/protobuf nor http/json`},
		{everything + "ENDPOINT=collector:4318", `OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" is not an absolute http or https URL, such as http://collector:4318`},
		{everything + "TRACES_ENDPOINT=https://u:hunter2@collector", `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://u:xxxxx@collector" has more than`},
		{everything + "HEADERS=api-key=ok,hunter2", "OTEL_EXPORTER_OTLP_HEADERS: entry 2 of the list is not of the form NAME=VALUE"},
		{everything + "TRACES_HEADERS=api key=hunter2", "OTEL_EXPORTER_OTLP_TRACES_HEADERS: entry 1 of the list"},
		{everything + "HEADERS=api-key=hunter2%", "OTEL_EXPORTER_OTLP_HEADERS: entry 1 of the list"},
		{everything + "COMPRESSION=zstd", `OTEL_EXPORTER_OTLP_COMPRESSION: "zstd" is neither gzip nor none`},
		{everything + "INSECURE=1", `OTEL_EXPORTER_OTLP_INSECURE: "1" is neither true nor false`},
		{everything + "TIMEOUT=10s", `OTEL_EXPORTER_OTLP_TIMEOUT: "10s" is not a number of milliseconds`},
		{everything + "CERTIFICATE=/nowhere.pem", "OTEL_EXPORTER_OTLP_CERTIFICATE: open /nowhere.pem: no such file or directory; name a PEM file"},
		{everything + "CERTIFICATE=traces_test.go", "OTEL_EXPORTER_OTLP_CERTIFICATE: traces_test.go holds no certificate"},
		{everything + "TRACES_CLIENT_KEY=/nowhere.pem", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE: "},
		{"OTEL_TRACES_SAMPLER=jaeger_remote", `OTEL_TRACES_SAMPLER: "jaeger_remote" is none of always_on, `},
		{"OTEL_TRACES_SAMPLER_ARG=10%", `OTEL_TRACES_SAMPLER_ARG: "10%" is not a share of 0 to 1`},
		{"OTEL_PROPAGATORS=b3", `OTEL_PROPAGATORS: "b3" is none of tracecontext, baggage, none`},
		{"OTEL_RESOURCE_ATTRIBUTES=hunter2", "OTEL_RESOURCE_ATTRIBUTES: entry 1 of the list"},
		{"OTEL_BSP_MAX_QUEUE_SIZE=-1", `OTEL_BSP_MAX_QUEUE_SIZE: "-1" is not a number of spans, of 1 to 1000000`},
		{"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=many", `OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT: "many" is not a limit, -1 for none`},
	} {
		err := environmentOf(test.variable, on, "OTEL_TRACES_SAMPLER=traceidratio").check()
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.variable, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a secret was quoted: %v", err)
		}
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "zipkin")
	newCLI(t).fails(exitError, []string{"serve", "--check"}, `sara: OTEL_TRACES_EXPORTER: "zipkin"`)
}

// A receiver is a collector that keeps what it is sent.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []*span.Span
	self   []*common.KeyValue // what the spans are said to come from
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

func testTraceArrives(t *testing.T, binary string, people *cast) {
	r := newReceiver(t)
	c := newCLI(t).against(people)
	const secret = "hunter2-of-the-collector"
	p, base, _ := serving(t, binary, append(c.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_EXPORTER_OTLP_HEADERS=api-key="+secret,
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test", "SARA_LOG_FORMAT=json", "SARA_ACCESS_LOG_SAMPLE=1.0"))
	c.ok("account", "add", "Acme", "--plan", "pro")
	c.ok("workspace", "add", "Acme", "Web")
	c.ok("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	c.withProperty()
	key, _ := c.object(keyMembers+" key", "key", "create", "ann@example.com", "--name", "test")["key"].(string)
	var answered struct {
		Meta struct {
			RequestID string `json:"request_id"`
		}
	}
	if err := json.Unmarshal([]byte(wantStatus(t, 200, base+"/v1/properties/shop/queries", key).body), &answered); err != nil {
		t.Fatal(err)
	}
	p.stopped() // by when everything has been sent
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
	if got := valueOf(r.self, "service.name") + " " + valueOf(r.self, "deployment.environment.name"); got != "sara test" || r.header.Get("Api-Key") != secret {
		t.Errorf("the spans come from %v with %v", r.self, r.header)
	}
	told := false
	for line := range strings.Lines(p.stderr.String()) {
		told = told || strings.Contains(line, id) && strings.Contains(line, `"trace_id":"`+hex.EncodeToString(request.TraceId)+`"`)
	}
	if !told || strings.Contains(p.stderr.String(), secret) {
		t.Errorf("no line has the request's id and its trace's, or the header is told:\n%s", p.stderr)
	}
}

func TestACollectorThatRefusesIsToldOfOnceAndWithoutSecrets(t *testing.T) {
	const secret = "hunter2"
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "what is "+r.Header.Get("Api-Key")+"?", http.StatusUnauthorized)
	}))
	defer refuse.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", refuse.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key="+secret)
	var told bytes.Buffer
	traces, err := traceEnvironment(os.Getenv).open(context.Background(), slog.New(slog.NewTextHandler(&told, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, s := traces.provider.Tracer("test").Start(context.Background(), "step")
		s.End()
		if err := traces.provider.ForceFlush(context.Background()); err != nil {
			t.Error(err)
		}
	}
	traces.close(context.Background())
	if text := told.String(); strings.Count(text, "traces cannot be sent") != 1 || !strings.Contains(text, "401") || strings.Contains(text, secret) {
		t.Errorf("the log says:\n%s", text)
	}
}

func TestACollectorThatHangsDoesNotKeepTheServiceFromStopping(t *testing.T) {
	hanging := make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hanging }))
	defer hang.Close()
	defer close(hanging)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", hang.URL)
	traces, err := traceEnvironment(os.Getenv).open(context.Background(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	traces.limit = 10 * time.Millisecond
	_, s := traces.provider.Tracer("test").Start(context.Background(), "step")
	s.End()
	traces.close(context.Background()) // before the collector lets go
}
