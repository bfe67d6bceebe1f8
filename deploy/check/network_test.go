package check

import (
	"fmt"
	"testing"
)

// Traces go to a collector in the namespace that asks for the metrics, and not by OTLP's port to anywhere else.
func TestTracesReachTheirCollectorOnly(t *testing.T) {
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
