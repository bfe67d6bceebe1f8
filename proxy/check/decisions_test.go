package check

import (
	"slices"
	"strings"
	"testing"

	"sara/cmd/sara/saratest"
)

// testDecisions sends every example of proxy/DECISIONS.md.
func testDecisions(t *testing.T, d demo) {
	saratest.Page{File: "../DECISIONS.md", Section: "### ", KeyOf: keyOfDecisions}.Test(t, d.World)
}

// keyOfDecisions sends the examples about figures with a key of their own: there are more examples than one key may send requests in a minute.
func keyOfDecisions(path string) string {
	if property, report, ok := strings.Cut(strings.TrimPrefix(path, "/v1/properties/"), "/"); ok && property != "" &&
		slices.Contains([]string{"summary", "timeseries", "queries", "pages", "countries", "devices", "movers/queries", "movers/pages"}, report) {
		return "performance_only"
	}
	return "agency"
}
