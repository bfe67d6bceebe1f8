package reporting

import (
	"errors"
	"io"
	"testing"
	"time"
)

// A property that is archived may lack the days of the range for good. That its answer failed for another reason leaves the report
// incomplete.
func TestOnlyDaysThatNeverWereEndAProperty(t *testing.T) {
	for code, complete := range map[string]bool{
		"VALIDATION_ERROR": true, "DATE_RANGE_TOO_OLD": true,
		"INTERNAL_ERROR": false, "NOT_FOUND": false, "QUOTA_EXCEEDED": false,
	} {
		now := func() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }
		c := Config{Now: now, Question: Question{Preset: "last_7d", Format: "json"}, Client: &Client{URL: "http://sara.example", Key: "k", Now: now, Transport: &answers{list: []answer{
			{status: 200, body: `{"success":true,"data":{"rows":[{"property_id":"1","totals":{"clicks":1}},{"property_id":"2","error":{"code":"` + code + `","message":"no"}}]},
				"meta":{"total":2,"date_range":{"start_date":"2026-11-17","end_date":"2026-11-23"}}}`},
			{status: 200, body: `{"success":true,"data":{"key":{"scopes":["properties:read","performance:read"]}}}`},
			{status: 200, body: `{"success":true,"data":{"rows":[{"id":"1"}]}}`},
		}}}}
		_, err := WritePortfolio(t.Context(), c, io.Discard)
		if _, incomplete := errors.AsType[*IncompleteError](err); incomplete == complete || !incomplete && err != nil {
			t.Errorf("%s: %v, want a complete report: %t", code, err, complete)
		}
	}
}
