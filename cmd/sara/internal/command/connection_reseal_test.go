package command

import (
	"strings"
	"testing"

	"sara/cmd/sara/internal/clitest"
)

func TestConnectionReseal(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it simulates Search Console")
	}
	people, _ := clitest.Simulate(t)
	c := clitest.New(t, sara).Against(people)
	c.Customer()
	c.WithProperty()
	both := c.With("SARA_SECRET_KEY="+clitest.AnotherSecretKey, "SARA_SECRET_KEY_PREVIOUS="+clitest.SecretKey)
	for _, want := range []float64{1, 0} {
		result := both.Object("resealed keys", "connection", "reseal")
		keys := result["keys"].([]any)
		current, previous := keys[0].(map[string]any), keys[1].(map[string]any)
		if result["resealed"] != want || current["role"] != "current" || current["connections"] != 1.0 || previous["role"] != "previous" ||
			previous["connections"] != 0.0 {
			t.Errorf("resealed: %v", result)
		}
	}
	if _, report, _ := both.Run("status"); !strings.Contains(strings.Join(strings.Fields(report), " "), "previous 0") {
		t.Errorf("the status does not show the previous key:\n%s", report)
	}
	c.With("SARA_SECRET_KEY=").Fails(ExitError, []string{"connection", "reseal"}, "SARA_SECRET_KEY: it is not set")
	c.With("SARA_SECRET_KEY=", "SARA_SECRET_KEY_PREVIOUS="+clitest.SecretKey).Fails(ExitError, []string{"connection", "reseal"},
		"SARA_SECRET_KEY_PREVIOUS: previous keys only open what is stored: set SARA_SECRET_KEY to the current one")
}
