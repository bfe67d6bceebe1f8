package settings

import (
	"strings"
	"testing"
)

// environmentOf returns the getenv of a list of NAME=VALUE.
func environmentOf(variables ...string) func(string) string {
	return func(name string) string {
		for _, variable := range variables {
			if key, value, _ := strings.Cut(variable, "="); key == name {
				return value
			}
		}
		return ""
	}
}

func TestTracesAreOffUnlessConfigured(t *testing.T) {
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
		traces, err := ReadTraces(environmentOf(test.variables...))
		if err != nil || traces.On != test.on {
			t.Errorf("%v: traces %v, %v, want on %v", test.variables, traces, err, test.on)
		}
	}
}

func TestReadTracesNamesWrongVariableAndFix(t *testing.T) {
	const on, everything = "OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_"
	for _, test := range []struct{ variable, want string }{
		{"OTEL_SDK_DISABLED=yes", `OTEL_SDK_DISABLED: "yes" is neither true nor false`},
		{"OTEL_TRACES_EXPORTER=zipkin", `OTEL_TRACES_EXPORTER: "zipkin" is neither otlp nor none; sara sends traces by OTLP only: choose otlp`},
		{everything + "PROTOCOL=grpc", `OTEL_EXPORTER_OTLP_PROTOCOL: grpc is not supported; choose http/protobuf`},
		{everything + "TRACES_PROTOCOL=http", `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http" is neither http/protobuf nor http/json`},
		{everything + "ENDPOINT=collector:4318",
			`OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" is not an absolute http or https URL, such as http://collector:4318`},
		{everything + "TRACES_ENDPOINT=https://u:hunter2@collector", `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://u:xxxxx@collector" has more than`},
		{everything + "HEADERS=api-key=ok,hunter2", "OTEL_EXPORTER_OTLP_HEADERS: entry 2 of the list is not of the form NAME=VALUE"},
		{everything + "TRACES_HEADERS=api key=hunter2", "OTEL_EXPORTER_OTLP_TRACES_HEADERS: entry 1 of the list"},
		{everything + "HEADERS=api-key=hunter2%", "OTEL_EXPORTER_OTLP_HEADERS: entry 1 of the list"},
		{everything + "COMPRESSION=zstd", `OTEL_EXPORTER_OTLP_COMPRESSION: "zstd" is neither gzip nor none`},
		{everything + "INSECURE=1", `OTEL_EXPORTER_OTLP_INSECURE: "1" is neither true nor false`},
		{everything + "TIMEOUT=10s", `OTEL_EXPORTER_OTLP_TIMEOUT: "10s" is not a number of milliseconds`},
		{everything + "CERTIFICATE=/nowhere.pem", "OTEL_EXPORTER_OTLP_CERTIFICATE: open /nowhere.pem: no such file or directory; name a PEM file"},
		{everything + "CERTIFICATE=traces_test.go", "OTEL_EXPORTER_OTLP_CERTIFICATE: traces_test.go has no certificate"},
		{everything + "TRACES_CLIENT_KEY=/nowhere.pem", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE: "},
		{"OTEL_TRACES_SAMPLER=jaeger_remote", `OTEL_TRACES_SAMPLER: "jaeger_remote" is not one of always_on, `},
		{"OTEL_TRACES_SAMPLER_ARG=10%", `OTEL_TRACES_SAMPLER_ARG: "10%" is not a fraction of 0 to 1`},
		{"OTEL_PROPAGATORS=b3", `OTEL_PROPAGATORS: "b3" is not one of tracecontext, baggage, none`},
		{"OTEL_RESOURCE_ATTRIBUTES=hunter2", "OTEL_RESOURCE_ATTRIBUTES: entry 1 of the list"},
		{"OTEL_BSP_MAX_QUEUE_SIZE=-1", `OTEL_BSP_MAX_QUEUE_SIZE: "-1" is not a number of spans, of 1 to 1000000`},
		{"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=many", `OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT: "many" is not a limit, -1 for none`},
	} {
		_, err := ReadTraces(environmentOf(test.variable, on, "OTEL_TRACES_SAMPLER=traceidratio"))
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.variable, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a secret was quoted: %v", err)
		}
	}
}
