package command

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sara/cmd/sara/internal/demo"
	"sara/cmd/sara/internal/settings"
	"sara/cmd/sara/saratest"
	"sara/translate"
)

// TestDemo looks at a demo whose clock stands still, except while an example waits, and does what guides say. Package proxy/check has the
// tests that need no such clock.
func TestDemo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it seeds a demo world")
	}
	var waited atomic.Int64
	now := func() time.Time { return saratest.PageTime().Add(time.Duration(waited.Load())) }
	// The examples go back 18 months, those of the sites that are only archived 3. None needs the archive of the year between.
	year := translate.DateRange{Start: translate.NewDate(2025, time.August, 5), End: translate.NewDate(2026, time.July, 31)}
	d := demoWithin(t, now, demo.Options{JSON: true, Months: demo.Months{Main: 19, Gaps: 19, Others: 4, Without: year},
		Clock: settings.Clock{ClockOffset: settings.Offset{Duration: time.Until(saratest.PageTime())}}})
	var world saratest.World
	if err := json.NewDecoder(d.stdout).Decode(&world); err != nil {
		t.Fatal(err)
	}
	t.Run("guide to agents", func(t *testing.T) { testAgents(t, world) }) // first: it takes no notice of faults
	t.Run("guide to the numbers", func(t *testing.T) { testGuideToTheNumbers(t, world, &waited) })
	t.Run("index coverage", func(t *testing.T) { testDemoIndex(t, world) })
}

// testGuideToTheNumbers sends the examples of the guide, and adds to waited what they wait.
func testGuideToTheNumbers(t *testing.T, world saratest.World, waited *atomic.Int64) {
	saratest.Page{File: "../../../../proxy/docs/guides/numbers.md", Section: "## ", KeyOf: keyOfGuides,
		Run: func(t *testing.T, name, args string) {
			if name == "curl" {
				controlUpstream(t, world.UpstreamURL, args)
				return
			}
			seconds, err := strconv.Atoi(args)
			if err != nil {
				t.Fatal(err)
			}
			waited.Add(int64(seconds) * int64(time.Second))
		}}.Test(t, world)
}

// keyOfGuides names a key with the scope for a path.
func keyOfGuides(path string) string {
	switch {
	case strings.HasSuffix(path, "/indexing"):
		return "indexing_only"
	case strings.Count(path, "/") > 3: // below a property
		return "performance_only"
	}
	return "properties_only"
}

var controlForm = regexp.MustCompile(`^-X PUT -d '(.*)' \$SIMULATOR(/\S+)$`)

// controlUpstream does what the arguments of a curl command say.
func controlUpstream(t *testing.T, simulator, args string) {
	t.Helper()
	m := controlForm.FindStringSubmatch(args)
	if m == nil {
		t.Fatalf("curl %s: want the form %s", args, controlForm)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, simulator+m[2], strings.NewReader(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusNoContent {
		t.Fatalf("curl %s: %s (%v)", args, response.Status, err)
	}
}
