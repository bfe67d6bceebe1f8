package reporting

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// recovering is a server whose first answer is from the archive, because Search Console does not answer; the others are live.
type recovering struct{ sent int }

// RoundTrip implements http.RoundTripper.
func (s *recovering) RoundTrip(r *http.Request) (*http.Response, error) {
	s.sent++
	source, reason, rows, more := "stored", `"Search Console does not answer"`, rowsPerRequest, true
	if s.sent > 1 {
		source, reason, rows, more = "live", "null", 1, false
	}
	var list []string
	for i := range rows {
		list = append(list, fmt.Sprintf(`{"key":"%d-%d","clicks":1}`, s.sent, i))
	}
	body := fmt.Sprintf(`{"success":true,"data":{"dimension":"query","rows":[%s]},"meta":{"source":"%s","stale_reason":%s,"has_more":%t,"notes":["%s"]}}`,
		strings.Join(list, ","), source, reason, more, source)
	return (&answers{list: []answer{{status: 200, body: body}}}).RoundTrip(r)
}

// A table that is read in several answers is as current as the oldest of them: its record must not show all rows as live.
func TestATableWithStoredRowsIsNotLive(t *testing.T) {
	t.Parallel()
	r := &run{Config: Config{Question: Question{Preset: "last_7d", Limit: 2 * rowsPerRequest},
		Client: &Client{URL: "http://sara.example", Now: time.Now, Transport: &recovering{}}}, record: new(record)}
	table, err := r.table(t.Context(), Property{ID: "1"}, "queries")
	if err != nil {
		t.Fatal(err)
	}
	if len(table.rows) != rowsPerRequest+1 || *table.Source != "hybrid" || table.StaleReason == nil || *table.HasMore ||
		fmt.Sprint(table.Notes) != "[stored live]" {
		t.Errorf("%d rows, %s, stale: %v, more: %v, notes %v", len(table.rows), *table.Source, table.StaleReason, *table.HasMore, table.Notes)
	}
}
