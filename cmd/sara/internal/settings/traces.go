package settings

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Traces configures whether and how a server sends traces, with the standard variables of OpenTelemetry. The exporter's
// library reads the rest of them by itself.
type Traces struct {
	On          bool
	HasEndpoint bool     // otherwise the default is in force
	Propagate   bool     // whether a request continues the trace of its client
	Secrets     []string // the values of the headers that spans are sent with
}

// ReadTraces reads the variables, and reports all invalid ones, including those that the libraries would ignore, so that no
// traces are lost silently. If traces are sent, getenv must look up the environment of this process: the libraries read no other.
func ReadTraces(getenv func(string) string) (Traces, error) {
	e := environment(getenv)
	on, err := e.on()
	if err != nil || !on {
		return Traces{}, err
	}
	endpoint, _ := e.ofOTLP("ENDPOINT")
	return Traces{On: true, HasEndpoint: endpoint != "", Propagate: e.propagates(), Secrets: e.headerValues()}, e.check()
}

// environment looks up a variable.
type environment func(name string) string

const otlpPrefix = "OTEL_EXPORTER_OTLP_"

// get returns the value of a variable; blank counts as not set.
func (e environment) get(name string) string { return strings.TrimSpace(e(name)) }

// ofOTLP returns the exporter's variable in force, and its value: the one for traces wins over the one for all signals.
func (e environment) ofOTLP(what string) (name, value string) {
	for _, name := range []string{otlpPrefix + "TRACES_" + what, otlpPrefix + what} {
		if value := e.get(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// on reports whether traces are on: an exporter or an endpoint is named.
func (e environment) on() (bool, error) {
	if err := e.oneOf("OTEL_SDK_DISABLED", "true", "false"); err != nil {
		return false, err
	}
	if strings.EqualFold(e.get("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	endpoint, _ := e.ofOTLP("ENDPOINT")
	switch exporter := e.get("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return false, nil
	case "otlp":
		return true, nil
	case "":
		return endpoint != "", nil
	default:
		return false, Errorf("OTEL_TRACES_EXPORTER",
			"%q is neither otlp nor none; sara sends traces by OTLP only: choose otlp, and let an OpenTelemetry Collector forward them", exporter)
	}
}

// check reports all problems of the variables.
func (e environment) check() error {
	return errors.Join(e.checkProtocol(), e.checkEndpoints(), e.checkExporter(), e.checkCertificates(), e.checkSampler(),
		e.checkPropagators(), e.checkPairs("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=production", isAnyName), e.checkNumbers())
}

func (e environment) checkProtocol() error {
	switch name, value := e.ofOTLP("PROTOCOL"); value {
	case "", "http/protobuf", "http/json":
		return nil
	case "grpc":
		return Errorf(name, "grpc is not supported; choose http/protobuf, and the collector's port for it, usually 4318")
	default:
		return Errorf(name, "%q is neither http/protobuf nor http/json", value)
	}
}

func (e environment) checkEndpoints() error {
	return errors.Join(e.checkEndpoint(otlpPrefix+"ENDPOINT", "http://collector:4318"),
		e.checkEndpoint(otlpPrefix+"TRACES_ENDPOINT", "http://collector:4318/v1/traces"))
}

func (e environment) checkEndpoint(name, example string) error {
	value := e.get(name)
	if value == "" {
		return nil
	}
	if _, err := ParseURL(value, example); err != nil {
		return Errorf(name, "%v", err)
	}
	return nil
}

// checkExporter checks the other variables of the exporter.
func (e environment) checkExporter() error {
	var errs []error
	for _, prefix := range []string{otlpPrefix, otlpPrefix + "TRACES_"} {
		errs = append(errs, e.oneOf(prefix+"COMPRESSION", "gzip", "none"), e.oneOf(prefix+"INSECURE", "true", "false"),
			e.wholeNumber(prefix+"TIMEOUT", 1, mostMilliseconds, "a number of milliseconds"),
			e.checkPairs(prefix+"HEADERS", "api-key=SECRET", isHeaderName))
	}
	return errors.Join(errs...)
}

// oneOf reports a value other than the two allowed ones.
func (e environment) oneOf(name, one, other string) error {
	value := e.get(name)
	if value == "" || strings.EqualFold(value, one) || strings.EqualFold(value, other) {
		return nil
	}
	return Errorf(name, "%q is neither %s nor %s", value, one, other)
}

func isAnyName(s string) bool { return s != "" }

// checkPairs checks a list of names and values. It quotes nothing, since values may be secrets.
func (e environment) checkPairs(name, example string, isName func(string) bool) error {
	list := e.get(name)
	if list == "" {
		return nil
	}
	for i, pair := range strings.Split(list, ",") {
		key, value, found := strings.Cut(pair, "=")
		_, err := url.PathUnescape(value)
		if !found || err != nil || !isName(strings.TrimSpace(key)) {
			return Errorf(name, "entry %d of the list is not of the form NAME=VALUE, with special characters in the value percent-encoded; "+
				"write it like %s", i+1, example)
		}
	}
	return nil
}

// headerValues returns the values of the headers that spans are sent with.
func (e environment) headerValues() []string {
	var values []string
	for _, name := range []string{otlpPrefix + "HEADERS", otlpPrefix + "TRACES_HEADERS"} {
		for pair := range strings.SplitSeq(e.get(name), ",") {
			_, value, _ := strings.Cut(pair, "=")
			if decoded, err := url.PathUnescape(value); err == nil {
				value = decoded
			}
			if value = strings.TrimSpace(value); value != "" {
				values = append(values, value)
			}
		}
	}
	return values
}

func (e environment) checkCertificates() error {
	var errs []error
	for _, prefix := range []string{otlpPrefix, otlpPrefix + "TRACES_"} {
		if file := e.get(prefix + "CERTIFICATE"); file != "" {
			text, err := os.ReadFile(file)
			switch {
			case err != nil:
				errs = append(errs, Errorf(prefix+"CERTIFICATE", "%v; name a PEM file with the certificates to trust", err))
			case !x509.NewCertPool().AppendCertsFromPEM(text):
				errs = append(errs, Errorf(prefix+"CERTIFICATE", "%s has no certificate; name a PEM file with those to trust", file))
			}
		}
		certificate, key := e.get(prefix+"CLIENT_CERTIFICATE"), e.get(prefix+"CLIENT_KEY")
		if certificate == "" && key == "" {
			continue
		}
		if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
			errs = append(errs, Errorf(prefix+"CLIENT_CERTIFICATE", "%v; name two PEM files that belong together, in it and in %sCLIENT_KEY", err, prefix))
		}
	}
	return errors.Join(errs...)
}

func (e environment) checkSampler() error {
	const samplerName, argumentName = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	switch sampler := strings.ToLower(e.get(samplerName)); sampler {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
		return nil
	case "traceidratio", "parentbased_traceidratio":
		argument := e.get(argumentName)
		if fraction, err := strconv.ParseFloat(argument, 64); argument != "" && !(err == nil && fraction >= 0 && fraction <= 1) {
			return Errorf(argumentName, "%q is not a fraction of 0 to 1, such as 0.1 for one trace in ten", argument)
		}
		return nil
	default:
		return Errorf(samplerName, "%q is not one of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, "+
			"parentbased_traceidratio", sampler)
	}
}

const propagatorsName = "OTEL_PROPAGATORS"

// propagators returns the formats in which clients may send trace ids; empty means W3C Trace Context.
func (e environment) propagators() []string {
	var names []string
	for name := range strings.SplitSeq(e.get(propagatorsName), ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (e environment) checkPropagators() error {
	for _, name := range e.propagators() {
		if name != "tracecontext" && name != "baggage" && name != "none" { // baggage is accepted and ignored
			return Errorf(propagatorsName, "%q is not one of tracecontext, baggage, none; choose tracecontext, "+
				"or none to ignore the trace ids of clients", name)
		}
	}
	return nil
}

// propagates reports whether a request continues the trace of its client.
func (e environment) propagates() bool {
	names := e.propagators()
	return len(names) == 0 || slices.Contains(names, "tracecontext")
}

const (
	mostMilliseconds = 1<<31 - 1
	mostQueued       = 1_000_000 // spans, of some kilobytes each
)

func (e environment) checkNumbers() error {
	errs := []error{
		e.wholeNumber("OTEL_BSP_SCHEDULE_DELAY", 1, mostMilliseconds, "a number of milliseconds"),
		e.wholeNumber("OTEL_BSP_EXPORT_TIMEOUT", 1, mostMilliseconds, "a number of milliseconds"),
		e.wholeNumber("OTEL_BSP_MAX_QUEUE_SIZE", 1, mostQueued, "a number of spans"),
		e.wholeNumber("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1, mostQueued, "a number of spans"),
	}
	for _, limit := range []string{
		"ATTRIBUTE_VALUE_LENGTH", "ATTRIBUTE_COUNT", "SPAN_ATTRIBUTE_VALUE_LENGTH", "SPAN_ATTRIBUTE_COUNT",
		"SPAN_EVENT_COUNT", "SPAN_LINK_COUNT", "EVENT_ATTRIBUTE_COUNT", "LINK_ATTRIBUTE_COUNT",
	} {
		errs = append(errs, e.wholeNumber("OTEL_"+limit+"_LIMIT", -1, mostMilliseconds, "a limit, -1 for none"))
	}
	return errors.Join(errs...)
}

func (e environment) wholeNumber(name string, least, most int, what string) error {
	value := e.get(name)
	if n, err := strconv.Atoi(value); value != "" && (err != nil || n < least || n > most) {
		return Errorf(name, "%q is not %s, of %d to %d", value, what, least, most)
	}
	return nil
}
