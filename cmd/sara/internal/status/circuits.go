package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
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

// circuits returns the open circuit breakers; nil if they cannot be read.
func (s scraped) circuits() Circuits {
	if s[breakersMetric] == nil {
		return nil
	}
	circuits := make(Circuits)
	for _, metric := range s[breakersMetric].GetMetric() {
		circuits[label(metric, breakersLabel)] += int(metric.GetGauge().GetValue())
	}
	return circuits
}
