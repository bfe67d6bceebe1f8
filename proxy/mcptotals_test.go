package proxy

import (
	"fmt"
	"strings"
	"testing"
)

// A table shows which share of the totals its rows have, if the totals are at hand: it makes no call for them, and charges nothing.
func TestMCP200TableShowsItsShareOfTotals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	table := map[string]any{"property": "main", "dimension": "query", "limit": 10, "date_range": "last_7d"}
	if _, text, _ := w.tool(t, "pro", "query_performance", table); strings.Contains(text, "Totals:") || !strings.Contains(text, "which is not the total") {
		t.Errorf("the totals are not known yet: %s", text)
	}
	totals := w.get("pro", w.path("main", "/summary?date_range=last_7d")).ok(t).data()["totals"].(map[string]any)
	var text string
	if calls := w.calls(func() { _, text, _ = w.tool(t, "pro", "query_performance", table) }); calls != 0 {
		t.Errorf("%d upstream calls", calls)
	}
	if want := fmt.Sprintf("Totals: %.0f clicks, %.0f impressions", totals["clicks"], totals["impressions"]); !strings.Contains(text, want) {
		t.Errorf("the text lacks %q: %s", want, text)
	}
	if !strings.Contains(text, "% of the totals") {
		t.Errorf("the text lacks the share of the rows: %s", text)
	}
	table["filters"] = []any{map[string]any{"dimension": "device", "operator": "equals", "value": "mobile"}}
	if _, text, _ := w.tool(t, "pro", "query_performance", table); strings.Contains(text, "of the totals") {
		t.Errorf("filtered rows are no share of the site's totals: %s", text)
	}
}
