package status

import "testing"

func TestHealthyReportNamesFailedInspections(t *testing.T) {
	r := Report{}
	if text := r.healthy(); text != "All is well." {
		t.Errorf("nothing fails: %s", text)
	}
	r.Indexing.Counts.Failing = 2
	if text := r.healthy(); text != "Nothing needs attention yet, but inspecting failed in the last run for 2 properties: see the notes above." {
		t.Errorf("two inspections fail: %s", text)
	}
}
