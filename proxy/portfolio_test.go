package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// A portfolioAnswer is an answer of /v1/portfolio, with figures as they are written.
type portfolioAnswer struct {
	Data struct {
		Rows             []portfolioEntry
		Totals, Previous json.RawMessage
	}
	Meta struct {
		RowCount int `json:"row_count"`
		Limit    int
		Offset   int
		Total    int
		Source   *string
		Cache    string
		Notes    []string
	}
}

type portfolioEntry struct {
	PropertyID       string `json:"property_id"`
	Name             string
	GSCProperty      string `json:"gsc_property"`
	Slug             string
	Totals, Previous json.RawMessage
	ClicksDelta      *int    `json:"clicks_delta"`
	Source           *string `json:"source"`
	StaleReason      *string `json:"stale_reason"`
	Notes            []string
	Error            *struct{ Code, Message string }
}

func (w *world) portfolio(key string, query ...string) portfolioAnswer {
	w.t.Helper()
	return readPortfolio(w.t, w.get(key, "/v1/portfolio", query...))
}

func readPortfolio(t testing.TB, r response) (answer portfolioAnswer) {
	t.Helper()
	r.ok(t)
	if err := json.Unmarshal(r.body, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// Each property has the figures of its own summary, to the last digit.
func TestPortfolio200EqualsEverySummary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, query := range [][]string{nil, {"compare", "previous_period"}, {"compare", "previous_year", "date_range", "last_7d"}} {
		whole := w.portfolio("pro", query...)
		if len(whole.Data.Rows) != len(w.properties)-1 { // without the foreign one
			t.Errorf("%d rows", len(whole.Data.Rows))
		}
		for _, row := range whole.Data.Rows {
			w.wantSummary(t, row, query)
		}
	}
}

// wantSummary compares a row with the property's own summary.
func (w *world) wantSummary(t *testing.T, row portfolioEntry, query []string) {
	t.Helper()
	r := w.get("pro", "/v1/properties/"+row.PropertyID+"/summary", query...)
	var own struct {
		Data  struct{ Totals, Previous json.RawMessage }
		Error struct{ Code, Message string }
		Meta  struct {
			Source      string
			StaleReason *string `json:"stale_reason"`
		}
	}
	if err := json.Unmarshal(r.body, &own); err != nil {
		t.Fatal(err)
	}
	if r.status != http.StatusOK {
		if row.Error == nil || row.Error.Code != own.Error.Code || row.Totals != nil && string(row.Totals) != "null" {
			t.Errorf("%s: %+v, the summary answers %s", row.Name, row, r.body)
		}
		return
	}
	previous := string(own.Data.Previous)
	if previous == "" {
		previous = "null"
	}
	if row.Error != nil || string(row.Totals) != string(own.Data.Totals) || string(row.Previous) != previous {
		t.Errorf("%s has %s and %s (%v), its summary %s and %s", row.Name, row.Totals, row.Previous, row.Error, own.Data.Totals, own.Data.Previous)
	}
	if row.Source == nil || *row.Source != own.Meta.Source || fmt.Sprint(row.StaleReason == nil) != fmt.Sprint(own.Meta.StaleReason == nil) {
		t.Errorf("%s is %v, its summary %s", row.Name, row.Source, own.Meta.Source)
	}
}
