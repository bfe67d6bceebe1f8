package main

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

// traceEnvironment looks up the variables by which OpenTelemetry is configured everywhere. It has to be os.Getenv but for
// what is only checked: the libraries read the environment of the process. What they would pass over, or only grumble about,
// is an error here, so that nobody waits in vain for traces.
type traceEnvironment func(name string) string

const otlpPrefix = "OTEL_EXPORTER_OTLP_"

// get returns the value of a variable; one of spaces counts as not set.
func (e traceEnvironment) get(name string) string { return strings.TrimSpace(e(name)) }

// ofOTLP returns the variable about the exporter of traces that is in force, the one for traces alone before the one for
// everything, and its value.
func (e traceEnvironment) ofOTLP(what string) (name, value string) {
	for _, name := range []string{otlpPrefix + "TRACES_" + what, otlpPrefix + what} {
		if value := e.get(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// on reports whether somebody wants traces: who names an exporter or where to send to.
func (e traceEnvironment) on() (bool, error) {
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
		return false, wrongSetting("OTEL_TRACES_EXPORTER", "%q is neither otlp nor none; sara sends traces by OTLP alone: choose otlp, and have an OpenTelemetry Collector pass them on", exporter)
	}
}

// check reports everything that is wrong with the variables, if somebody wants traces.
func (e traceEnvironment) check() error {
	if on, err := e.on(); err != nil || !on {
		return err
	}
	return errors.Join(e.checkProtocol(), e.checkEndpoints(), e.checkExporter(), e.checkCertificates(), e.checkSampler(),
		e.checkPropagators(), e.checkPairs("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=production", isAnyName), e.checkNumbers())
}

func (e traceEnvironment) checkProtocol() error {
	switch name, value := e.ofOTLP("PROTOCOL"); value {
	case "", "http/protobuf", "http/json":
		return nil
	case "grpc":
		return wrongSetting(name, "grpc is not built into sara; choose http/protobuf, and the collector's port for it, which is 4318 as a rule")
	default:
		return wrongSetting(name, "%q is neither http/protobuf nor http/json", value)
	}
}

func (e traceEnvironment) checkEndpoints() error {
	check := func(name, example string) error {
		if value := e.get(name); value != "" {
			return checkURL(name, value, example)
		}
		return nil
	}
	return errors.Join(check(otlpPrefix+"ENDPOINT", "http://collector:4318"),
		check(otlpPrefix+"TRACES_ENDPOINT", "http://collector:4318/v1/traces"))
}

// checkExporter looks at what else there is to say of how spans are sent.
func (e traceEnvironment) checkExporter() error {
	var errs []error
	for _, prefix := range []string{otlpPrefix, otlpPrefix + "TRACES_"} {
		errs = append(errs, e.oneOf(prefix+"COMPRESSION", "gzip", "none"), e.oneOf(prefix+"INSECURE", "true", "false"),
			e.wholeNumber(prefix+"TIMEOUT", 1, mostMilliseconds, "a number of milliseconds"),
			e.checkPairs(prefix+"HEADERS", "api-key=SECRET", isHeaderName))
	}
	return errors.Join(errs...)
}

// oneOf refuses a value that is none of two.
func (e traceEnvironment) oneOf(name, one, other string) error {
	value := e.get(name)
	if value == "" || strings.EqualFold(value, one) || strings.EqualFold(value, other) {
		return nil
	}
	return wrongSetting(name, "%q is neither %s nor %s", value, one, other)
}

func isAnyName(s string) bool { return s != "" }

// checkPairs looks at a list of names and values. It quotes none of it: values may be secrets.
func (e traceEnvironment) checkPairs(name, example string, isName func(string) bool) error {
	list := e.get(name)
	if list == "" {
		return nil
	}
	for i, pair := range strings.Split(list, ",") {
		key, value, found := strings.Cut(pair, "=")
		_, err := url.PathUnescape(value)
		if !found || err != nil || !isName(strings.TrimSpace(key)) {
			return wrongSetting(name, "entry %d of the list is not of the form NAME=VALUE with what is odd in the value percent-encoded; write it like %s", i+1, example)
		}
	}
	return nil
}

// headerValues returns the values of the headers that spans are sent with.
func (e traceEnvironment) headerValues() []string {
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

func (e traceEnvironment) checkCertificates() error {
	var errs []error
	for _, prefix := range []string{otlpPrefix, otlpPrefix + "TRACES_"} {
		if file := e.get(prefix + "CERTIFICATE"); file != "" {
			text, err := os.ReadFile(file)
			switch {
			case err != nil:
				errs = append(errs, wrongSetting(prefix+"CERTIFICATE", "%v; name a PEM file with the certificates to trust", err))
			case !x509.NewCertPool().AppendCertsFromPEM(text):
				errs = append(errs, wrongSetting(prefix+"CERTIFICATE", "%s holds no certificate; name a PEM file with those to trust", file))
			}
		}
		certificate, key := e.get(prefix+"CLIENT_CERTIFICATE"), e.get(prefix+"CLIENT_KEY")
		if certificate == "" && key == "" {
			continue
		}
		if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
			errs = append(errs, wrongSetting(prefix+"CLIENT_CERTIFICATE", "%v; name two PEM files that belong together, in it and in %sCLIENT_KEY", err, prefix))
		}
	}
	return errors.Join(errs...)
}

func (e traceEnvironment) checkSampler() error {
	const samplerName, argumentName = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	switch sampler := strings.ToLower(e.get(samplerName)); sampler {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
		return nil
	case "traceidratio", "parentbased_traceidratio":
		argument := e.get(argumentName)
		if share, err := strconv.ParseFloat(argument, 64); argument != "" && !(err == nil && share >= 0 && share <= 1) {
			return wrongSetting(argumentName, "%q is not a share of 0 to 1, such as 0.1 for every tenth trace", argument)
		}
		return nil
	default:
		return wrongSetting(samplerName, "%q is none of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio", sampler)
	}
}

const propagatorsName = "OTEL_PROPAGATORS"

// propagators returns how clients may name their traces; by W3C Trace Context if nothing is said.
func (e traceEnvironment) propagators() []string {
	var names []string
	for name := range strings.SplitSeq(e.get(propagatorsName), ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (e traceEnvironment) checkPropagators() error {
	for _, name := range e.propagators() {
		if name != "tracecontext" && name != "baggage" && name != "none" { // baggage goes nowhere from here
			return wrongSetting(propagatorsName, "%q is none of tracecontext, baggage, none; choose tracecontext, or none if clients are to have no say in traces", name)
		}
	}
	return nil
}

// propagates reports whether a request is in the trace that its client names.
func (e traceEnvironment) propagates() bool {
	names := e.propagators()
	return len(names) == 0 || slices.Contains(names, "tracecontext")
}

const (
	mostMilliseconds = 1<<31 - 1
	mostQueued       = 1_000_000 // spans, of some kilobytes each
)

func (e traceEnvironment) checkNumbers() error {
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

func (e traceEnvironment) wholeNumber(name string, least, most int, what string) error {
	value := e.get(name)
	if n, err := strconv.Atoi(value); value != "" && (err != nil || n < least || n > most) {
		return wrongSetting(name, "%q is not %s, of %d to %d", value, what, least, most)
	}
	return nil
}
