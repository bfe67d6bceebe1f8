package proxy

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sara/translate"
)

// A table shows which share of the totals its rows have, if the totals are at hand: it makes no call for them, and charges nothing.
func TestMCP200TableShowsItsShareOfTotals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	table := map[string]any{"property": "main", "dimension": "query", "limit": 10, "date_range": "last_7d"}
	if _, text, _ := w.tool(t, "pro", "query_performance", table); strings.Contains(text, "Totals:") ||
		!strings.Contains(text, "which is not the total") {
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

// The comparison of an overview counts only the days that both periods have. Its tables are of all days: their shares are of the totals of all
// days, which the text has too.
func TestMCP200OverviewOfAPeriodWithoutItsWholePredecessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	totals := w.get("pro", w.path("main", "/summary?date_range=last_12m")).ok(t).data()["totals"].(map[string]any)
	content, text, _ := w.tool(t, "pro", "get_overview", map[string]any{"property": "main", "date_range": "last_12m"})
	compared := content["data"].(map[string]any)["totals"].(map[string]any)
	if compared["clicks"].(float64) >= totals["clicks"].(float64) {
		t.Fatalf("the comparison has all %v clicks", totals["clicks"])
	}
	for _, want := range []string{
		fmt.Sprintf("Totals: %.0f clicks, %.0f impressions", totals["clicks"], totals["impressions"]),
		fmt.Sprintf("\nOf the days that both periods have: %.0f clicks, %.0f impressions", compared["clicks"], compared["impressions"]),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q: %.600s", want, text)
		}
	}
	shares := regexp.MustCompile(`\n(queries|pages) \(\d+\): (\d+) clicks, (\d+) % of the totals`).FindAllStringSubmatch(text, -1)
	for _, share := range shares {
		clicks, _ := strconv.ParseFloat(share[2], 64)
		if want := fmt.Sprintf("%.0f", 100*clicks/totals["clicks"].(float64)); share[3] != want {
			t.Errorf("%s have %s %% of the totals, want %s", share[1], share[3], want)
		}
	}
	if len(shares) != 2 {
		t.Errorf("%d tables have a share: %s", len(shares), text)
	}
	w.wantUsage(t, "pro", 7, 7, 5)
}

// So they are for a property whose connection does not work, and whose archive lacks days of the period before.
func TestMCP200OverviewOfADisconnectedProperty(t *testing.T) {
	t.Parallel()
	history, keeping := kept(t)
	w := newWorld(t, keeping)
	w.chronicle(history, "disconnected", "sc-domain:twin.example").keep(t, "2026-10-15", "2026-11-15")
	totals := w.get("pro", w.path("disconnected", "/summary")).ok(t).data()["totals"].(map[string]any)
	_, text, _ := w.tool(t, "pro", "get_overview", map[string]any{"property": w.properties["disconnected"].ID, "limit": 1})
	for _, want := range []string{
		fmt.Sprintf("\nTotals: %.0f clicks, %.0f impressions", totals["clicks"], totals["impressions"]),
		"\nOf the days that both periods have: ",
		"24 of 28 days are missing on one side",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q: %.600s", want, text)
		}
	}
	share := regexp.MustCompile(`\nqueries \(1\): (\d+) clicks, (\d+) % of the totals`).FindStringSubmatch(text)
	if share == nil {
		t.Fatalf("no share: %s", text)
	}
	if clicks, _ := strconv.ParseFloat(share[1], 64); share[2] != fmt.Sprintf("%.0f", 100*clicks/totals["clicks"].(float64)) {
		t.Errorf("the query has %s %% of the totals, with %s of %v clicks", share[2], share[1], totals["clicks"])
	}
}

// Without a day to compare, only the previous period is missing.
func TestMCP200OverviewWithoutAPreviousPeriod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	totals := w.get("pro", w.path("main", "/summary?date_range=last_16m")).ok(t).data()["totals"]
	content, text, failed := w.tool(t, "pro", "get_overview", map[string]any{"property": "main", "date_range": "last_16m"})
	data, errors := content["data"].(map[string]any), content["meta"].(map[string]any)["errors"].(map[string]any)
	previous, _ := errors["previous"].(map[string]any)
	if failed || fmt.Sprint(data["totals"]) != fmt.Sprint(totals) || data["previous"] != nil || errors["totals"] != nil ||
		previous["code"] != translate.CodeDateRangeTooOld {
		t.Errorf("the totals are %v with the errors %v, want %v", data["totals"], errors, totals)
	}
	if !strings.Contains(text, fmt.Sprintf("Totals: %.0f clicks", totals.(map[string]any)["clicks"])) ||
		!strings.Contains(text, "Missing: previous failed with DATE_RANGE_TOO_OLD") {
		t.Errorf("the text is %s", text)
	}
}
