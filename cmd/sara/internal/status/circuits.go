package status

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	// metricsTimeout bounds one query of a server's /metrics, which may wait lookTimeout for the database.
	metricsTimeout = lookTimeout + time.Second
	maxMetrics     = 4 << 20 // bytes
	breakersMetric = "sara_upstream_breaker_open"
	breakersLabel  = "host_role"
)

// Circuits counts the open circuit breakers of a replica by what they are for: property, connection, search_console (the whole
// API), the same for sitemaps and inspections (indexing_property, indexing_connection, indexing), and token.
type Circuits map[string]int

// wide returns the open circuit breakers that stop calls about every property, or every refresh at a token endpoint.
func (c Circuits) wide() (open []string) {
	for _, role := range [...]string{"search_console", "indexing", "token"} {
		if c[role] > 0 {
			open = append(open, role)
		}
	}
	return open
}

// String lists the roles that have open circuit breakers.
func (c Circuits) String() string {
	var open []string
	for _, role := range slices.Sorted(maps.Keys(c)) {
		if n := c[role]; n > 0 {
			open = append(open, fmt.Sprintf("%s: %d", role, n))
		}
	}
	switch {
	case c == nil:
		return "-"
	case open == nil:
		return "none"
	}
	return strings.Join(open, ", ")
}

// openCircuits reads the open circuit breakers from /metrics of the admin endpoints at base; nil if they cannot be read.
func openCircuits(ctx context.Context, transport *http.Transport, base string) Circuits {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil)
	if err != nil {
		return nil
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }() // only read
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(response.Body, maxMetrics))
	if err != nil || families[breakersMetric] == nil {
		return nil
	}
	circuits := make(Circuits)
	for _, metric := range families[breakersMetric].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == breakersLabel {
				circuits[label.GetValue()] += int(metric.GetGauge().GetValue())
			}
		}
	}
	return circuits
}
