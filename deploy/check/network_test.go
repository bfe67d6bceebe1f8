package check

import (
	"fmt"
	"testing"
)

// The OTLP port is open only to the namespace that also scrapes the metrics.
func TestTracesReachOnlyTheirCollector(t *testing.T) {
	for _, folder := range kustomizations(t) {
		var to []any
		for _, rule := range each(only(t, render(t, folder), "NetworkPolicy").at("spec", "egress")) {
			for _, port := range each(rule["ports"]) {
				if port["port"] == 4318.0 {
					to = append(to, rule["to"])
				}
			}
		}
		if got, want := fmt.Sprint(to), "[[map[namespaceSelector:map[matchLabels:map[kubernetes.io/metadata.name:monitoring]]]]]"; got != want {
			t.Errorf("%s: traces may go to %s, want %s", folder, got, want)
		}
	}
}
