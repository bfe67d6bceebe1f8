package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/demo"
	"sara/cmd/sara/internal/service"
)

// demoLine is what demo --json prints.
type demoLine struct {
	BaseURL     string                       `json:"base_url"`
	AdminURL    string                       `json:"admin_url"`
	UpstreamURL string                       `json:"upstream_url"`
	Keys        map[string]string            `json:"keys"`
	Properties  map[string]map[string]string `json:"properties"`
}

func testDemo(t *testing.T, binary string) {
	temporary := t.TempDir()
	offset := time.Until(demoTime).Truncate(time.Second)
	p := start(t, binary, []string{"TMPDIR=" + temporary, "SARA_CLOCK_OFFSET=" + offset.String()}, "demo", "--json", "--listen", "127.0.0.1:0")
	var world demoLine
	decoder := json.NewDecoder(strings.NewReader(p.line()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&world); err != nil {
		t.Fatal(err)
	}
	t.Run("decisions", func(t *testing.T) { testDecisions(t, world) }) // first: some examples show counts
	t.Run("examples", func(t *testing.T) { testExamplesOfReference(t, world) })
	t.Run("keys", func(t *testing.T) { testDemoKeys(t, world) })
	t.Run("properties", func(t *testing.T) { testDemoProperties(t, world) })
	t.Run("configuration of main", func(t *testing.T) { testDemoMain(t, world) })
	t.Run("index coverage", func(t *testing.T) { testDemoIndex(t, world) })
	t.Run("history", func(t *testing.T) { testDemoHistory(t, world, temporary) })
	t.Run("guides", func(t *testing.T) {
		t.Run("to the tools", func(t *testing.T) { testGuideToTheTools(t, world) })
		t.Run("to agencies", func(t *testing.T) { testGuideToAgencies(t, binary, world) })
	})
	wantStatus(t, 200, world.AdminURL+"/readyz", "")
	wantStatus(t, 200, world.UpstreamURL+"/_sim/calls", "")
	p.signal(os.Interrupt)
	if rest, err := p.wait(); err != nil || rest != "" {
		t.Errorf("after being interrupted: %v and more output %q\n%s", err, rest, p.stderr)
	}
	if left, err := filepath.Glob(filepath.Join(temporary, "*")); err != nil || len(left) > 0 {
		t.Errorf("the demo leaves %v (%v)", left, err)
	}
}

func testDemoKeys(t *testing.T, world demoLine) {
	code := map[string]string{"trial": "API_ACCESS_REQUIRED", "lapsed": "API_ACCESS_REQUIRED", "revoked": "API_KEY_REVOKED", "expired": "API_KEY_EXPIRED"}
	for name, status := range map[string]int{
		"pro": 200, "agency": 200, "pro_second": 200, "properties_only": 200, "performance_only": 200, "indexing_only": 200,
		"config_only": 200, "workspace_scoped": 200, "trial": 403, "lapsed": 403, "revoked": 401, "expired": 401,
	} {
		a := wantStatus(t, status, world.BaseURL+"/v1/me", world.Keys[name])
		if !strings.Contains(a.body, code[name]) {
			t.Errorf("key %s: %.200s, want %s", name, a.body, code[name])
		}
	}
	if len(world.Keys) != 12 {
		t.Errorf("there are %d keys, want 12", len(world.Keys))
	}
	main := world.BaseURL + "/v1/properties/" + world.Properties["main"]["id"]
	for _, test := range []struct {
		key, path string
		status    int
	}{
		{"properties_only", "", 200}, {"properties_only", "/summary", 403},
		{"performance_only", "/summary", 200}, {"performance_only", "", 403},
		{"config_only", "/brand-terms", 200}, {"config_only", "/summary", 403},
		{"indexing_only", "/brand-terms", 403},
	} {
		wantStatus(t, test.status, main+test.path, world.Keys[test.key])
	}
}

func testDemoProperties(t *testing.T, world demoLine) {
	at := func(reference string) string { return world.BaseURL + "/v1/properties/" + reference }
	names := []string{"main", "prefix", "archived", "disconnected", "fresh", "twin_a", "twin_b", "late", "gaps", "foreign"}
	if len(world.Properties) != len(names) {
		t.Errorf("there are %d properties, want %d", len(world.Properties), len(names))
	}
	for _, name := range names {
		p := world.Properties[name]
		if len(p) != 4 {
			t.Errorf("property %s has the members %v", name, p)
		}
		// Each key sends few requests, because a plan limits them per minute.
		reached, scoped := 200, 404
		switch name {
		case "foreign":
			reached = 404
		case "main":
			scoped = 200
		}
		wantStatus(t, reached, at(p["id"]), world.Keys["pro"])
		wantStatus(t, reached, at(p["slug"]), world.Keys["pro_second"])
		wantStatus(t, reached, at(p["id"]), world.Keys["properties_only"])
		wantStatus(t, reached, at(p["id"])+"/annotations", world.Keys["config_only"])
		wantStatus(t, scoped, at(p["id"]), world.Keys["workspace_scoped"])
		if !strings.HasPrefix(name, "twin") {
			wantStatus(t, reached, at(p["domain"]), world.Keys["properties_only"])
			wantStatus(t, reached, at(url.PathEscape(p["gsc_property"])), world.Keys["properties_only"])
			continue
		}
		a := wantStatus(t, 400, at(p["domain"]), world.Keys["properties_only"])
		if !strings.Contains(a.body, "PROPERTY_AMBIGUOUS") || !strings.Contains(a.body, world.Properties["twin_a"]["id"]) ||
			!strings.Contains(a.body, world.Properties["twin_b"]["id"]) {
			t.Errorf("the domain of the twins: %s", a.body)
		}
	}
	if world.Properties["twin_a"]["gsc_property"] != world.Properties["twin_b"]["gsc_property"] {
		t.Error("the twins are not one domain")
	}
	for name, healthy := range map[string]bool{"main": true, "disconnected": false} {
		a := wantStatus(t, 200, at(world.Properties[name]["id"]), world.Keys["agency"])
		if !strings.Contains(a.body, fmt.Sprintf(`"healthy":%t`, healthy)) {
			t.Errorf("property %s: %s, want healthy %t", name, a.body, healthy)
		}
	}
	for _, name := range []string{"main", "prefix", "fresh", "twin_a", "twin_b", "late", "gaps"} {
		wantStatus(t, 200, at(world.Properties[name]["id"])+"/summary", world.Keys["agency"])
	}
	if a := wantStatus(t, 200, at(world.Properties["late"]["id"])+"/timeseries?date_range=last_7d", world.Keys["agency"]); !strings.Contains(a.body, "Search Console has not published ") ||
		!strings.Contains(a.body, `"row_count":5`) {
		t.Errorf("late: %s, want five of seven days", a.body)
	}
	if a := wantStatus(t, 200, at(world.Properties["archived"]["id"]), world.Keys["agency"]); !strings.Contains(a.body, `"archived":true`) {
		t.Errorf("archived: %s", a.body)
	}
	listed := wantStatus(t, 200, world.BaseURL+"/v1/properties", world.Keys["agency"])
	if !strings.Contains(listed.body, `"total":8`) || !strings.Contains(listed.body, `"starred":true`) {
		t.Errorf("the list: %s", listed.body)
	}
}

func testDemoMain(t *testing.T, world demoLine) {
	main := world.BaseURL + "/v1/properties/" + world.Properties["main"]["slug"]
	for path, wants := range map[string][]string{
		"/brand-terms": {`"contains"`, `"exact"`, `"regex"`},
		"/page-groups": {`"prefix"`, `"contains"`, `"equals"`, `"regex"`},
		"/annotations": {`"row_count":4`},
	} {
		a := wantStatus(t, 200, main+path, world.Keys["config_only"])
		for _, want := range wants {
			if !strings.Contains(a.body, want) {
				t.Errorf("%s has no %s: %s", path, want, a.body)
			}
		}
	}
}

// TestDemoForPeople does what a demo prints: it opens the page, which has the printed key, and runs the commands. Its archive is short, so
// that it starts soon.
func TestDemoForPeople(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it seeds a demo world")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	d := demoWithin(t, time.Now, demo.Options{Months: demo.Months{Main: 1, Gaps: 1, Others: 1}})
	printed := bufio.NewScanner(d.stdout)
	tried, page, agent := 0, "", ""
	for agent == "" && printed.Scan() {
		try := printed.Text()
		if strings.HasPrefix(try, "claude mcp add ") {
			agent = try
		}
		if address, ok := strings.CutPrefix(try, "Open "); ok {
			address, _, _ = strings.Cut(address, " ")
			page = wantStatus(t, 200, address+"/operations/getSummary", "").body
		}
		if key, ok := strings.CutPrefix(try, "pro "); ok && !strings.Contains(page, `value="`+strings.Fields(key)[1]+`"`) {
			t.Errorf("the page does not have the key of %q", try)
		}
		if !strings.HasPrefix(try, "curl ") {
			continue
		}
		tried++
		out, err := exec.Command("sh", "-c", try+" -sS --fail --noproxy '*'").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(`"success":true`)) {
			t.Errorf("%s: %v\n%.300s", try, err, out)
		}
	}
	d.stop()
	words, err := exec.Command("sh", "-c", `claude() { printf '%s\n' "$@"; }; `+agent).CombinedOutput()
	if form := regexp.MustCompile(`^mcp\nadd\n--transport\nhttp\nsara\nhttp://127\.0\.0\.1:\d+/mcp\n--header\nAuthorization: Bearer sara_live_\w+\n$`); err != nil || !form.Match(words) {
		t.Errorf("%s: %v\n%s", agent, err, words)
	}
	if tried != 3 || page == "" {
		t.Errorf("it printed %d commands\n%s", tried, d.stderr.String())
	}
}

// A demoInTest is a demo in the process of its test.
type demoInTest struct {
	stdout io.Reader
	stderr *bytes.Buffer // to be read after stop
	stop   func()        // stops it once, and checks how it ends
}

// demoWithin starts a demo on any free ports, by a clock. It stops with the test at the latest.
func demoWithin(t *testing.T, now func() time.Time, o demo.Options) demoInTest {
	t.Helper()
	const anyPort = "127.0.0.1:0"
	command := demoCommand{Listen: anyPort, UpstreamListen: anyPort, AdminListen: anyPort}
	var err error
	if o.Listeners, err = command.listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	reader, stdout := io.Pipe()
	d := demoInTest{stdout: reader, stderr: new(bytes.Buffer)}
	ended := make(chan error, 1)
	go func() {
		err := demo.Run(ctx, &console.Console{Stdout: stdout, Stderr: d.stderr, Now: now, Command: console.ProgramName}, o)
		_ = stdout.CloseWithError(err) // cannot fail
		ended <- err
	}()
	d.stop = sync.OnceFunc(func() {
		cancel()
		_ = reader.Close() // cannot fail
		if err := <-ended; err != nil {
			t.Errorf("the demo ended with %v\n%s", err, d.stderr.String())
		}
		service.Close(o.Public, o.Upstream, o.Admin)
	})
	t.Cleanup(d.stop)
	return d
}
