package gscsim_test

import (
	"testing"

	searchconsole "google.golang.org/api/searchconsole/v1"
)

func TestGoogleClientReadsTotals(t *testing.T) {
	s := start(t, testConfig())
	answer := s.ask(t, &searchconsole.SearchAnalyticsQueryRequest{})
	if len(answer.Rows) != 1 || answer.Rows[0].Keys != nil || answer.Rows[0].Clicks == 0 || answer.ResponseAggregationType != "byProperty" {
		t.Fatalf("totals are %+v", answer)
	}
}
