package schedule

import (
	"testing"
	"testing/synctest"

	"sara/proxy/upstream"
)

// Repaired credentials have a new revision. What failed through the old ones does not wait.
func TestNewCredentialsEndTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := &jobTest{tries: make(map[string]int), left: map[string]error{"shop": &upstream.Error{Kind: upstream.Revoked}}}
		job := test.job(newLeases(), "a")
		credentials := Credentials{"google", 1}
		job.Status = func(property string) Status { return Status{ID: property, Enabled: true, Credentials: credentials} }
		backoff := make(map[string]pause)
		round := func(want int) {
			t.Helper()
			if results, _, err := job.round(t.Context(), backoff); err != nil || len(results) != want {
				t.Errorf("%d results, want %d, and %v", len(results), want, err)
			}
		}
		round(1)
		round(0)
		credentials.Revision++
		round(1)
		round(0)
		credentials.ConnectionID = "another"
		round(1)
		round(0)
	})
}

// A run goes on through a connection once its credentials are replaced.
func TestConnectionIsLostUntilItsCredentialsAreReplaced(t *testing.T) {
	var lost LostConnections
	before := upstream.Target{PropertyID: "shop", ConnectionID: "google", Revision: 1}
	lost.Note(before, &upstream.Error{Kind: upstream.Unavailable})
	if err := lost.Err(before); err != nil {
		t.Errorf("lost after an outage: %v", err)
	}
	lost.Note(before, &upstream.Error{Kind: upstream.Revoked})
	for of, isLost := range map[Credentials]bool{{"google", 1}: true, {"google", 2}: false, {"another", 1}: false} {
		if err := lost.Err(upstream.Target{PropertyID: "blog", ConnectionID: of.ConnectionID, Revision: of.Revision}); (err != nil) != isLost {
			t.Errorf("%+v: %v", of, err)
		}
	}
}
