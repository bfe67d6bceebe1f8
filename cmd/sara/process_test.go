package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sara/proxy/upstream/gscsim"
)

// TestProcess runs the binary as its users do.
func TestProcess(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "sara")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	people, simulator := simulate(t)
	t.Run("serve", func(t *testing.T) { testServe(t, binary, people, simulator) })
	t.Run("not ready while draining", func(t *testing.T) { testDrain(t, binary) })
	t.Run("a second signal ends it at once", func(t *testing.T) { testSecondSignal(t, binary) })
	t.Run("demo", func(t *testing.T) { testDemo(t, binary) })
	t.Run("demo for people", func(t *testing.T) { testDemoTable(t, binary) })
	t.Run("wrong usage", func(t *testing.T) {
		err := exec.Command(binary, "frobnicate").Run()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != exitUsage {
			t.Errorf("sara frobnicate: %v, want status %d", err, exitUsage)
		}
	})
}

// process is a running sara.
type process struct {
	t       *testing.T
	command *exec.Cmd
	stdout  *bufio.Reader
	stderr  *bytes.Buffer // read only once it has ended
	ended   bool
}

// hurry is how long anything in these tests may take: far longer than it does, far shorter than the test's own limit.
const hurry = 30 * time.Second

func start(t *testing.T, binary string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, command: exec.Command(binary, args...), stderr: new(bytes.Buffer)}
	p.command.Env = append(os.Environ(), env...)
	p.command.Dir = t.TempDir()
	p.command.Stderr = p.stderr
	pipe, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(pipe)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(hurry, func() { _ = p.command.Process.Kill() })
	t.Cleanup(func() {
		killer.Stop()
		if !p.ended {
			_ = p.command.Process.Kill()
			_ = p.command.Wait()
		}
	})
	return p
}

// line reads the next line of standard output.
func (p *process) line() string {
	p.t.Helper()
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		_ = p.command.Wait()
		p.ended = true
		p.t.Fatalf("standard output ends: %v\n%s", err, p.stderr)
	}
	return strings.TrimSuffix(line, "\n")
}

func (p *process) signal(signal os.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the end and returns what was left on standard output.
func (p *process) wait() (rest string, err error) {
	p.t.Helper()
	text, readErr := io.ReadAll(p.stdout)
	err = p.command.Wait()
	p.ended = true
	if readErr != nil {
		p.t.Fatal(readErr)
	}
	return string(text), err
}

// stopped tells the process to stop and makes sure that it ends well.
func (p *process) stopped() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if _, err := p.wait(); err != nil {
		p.t.Errorf("after SIGTERM: %v\n%s", err, p.stderr)
	}
}

// serving starts serve on free ports and returns its addresses.
func serving(t *testing.T, binary string, env []string, args ...string) (p *process, base, admin string) {
	t.Helper()
	p = start(t, binary, env, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)...)
	base, ok := strings.CutPrefix(p.line(), "listening on ")
	if !ok {
		t.Fatalf("serve does not say where it listens: %q", base)
	}
	admin, ok = strings.CutPrefix(p.line(), "admin listening on ")
	if !ok {
		t.Fatalf("serve does not say where its admin endpoints are: %q", admin)
	}
	return p, base, admin
}

// answer is what came back from a request.
type answer struct {
	status int
	body   string
	err    error
}

func get(address, key string) answer {
	request, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return answer{err: err}
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	client := http.Client{Timeout: hurry, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(body), errors.Join(err, response.Body.Close())}
}

func wantStatus(t *testing.T, want int, address, key string) answer {
	t.Helper()
	a := get(address, key)
	if a.err != nil || a.status != want {
		t.Errorf("GET %s: %d %v, want %d\n%.300s", address, a.status, a.err, want, a.body)
	}
	return a
}

// until asks until the status comes.
func until(t *testing.T, want int, address string) {
	t.Helper()
	for deadline := time.Now().Add(hurry); time.Now().Before(deadline); {
		if get(address, "").status == want {
			return
		}
	}
	t.Fatalf("GET %s does not come to answer %d", address, want)
}

func testServe(t *testing.T, binary string, people *cast, simulator *gscsim.Server) {
	c := newCLI(t).against(people)
	p, base, admin := serving(t, binary, c.env)
	wantStatus(t, 200, admin+"/livez", "")
	wantStatus(t, 200, admin+"/readyz", "")
	wantStatus(t, 401, base+"/v1/me", "")
	if metrics := wantStatus(t, 200, admin+"/metrics", ""); !strings.Contains(metrics.body, "sara_build_info") || !strings.Contains(metrics.body, "go_goroutines") {
		t.Errorf("metrics:\n%.500s", metrics.body)
	}

	// What the commands change is in force in the running server.
	c.ok("account", "add", "Acme", "--plan", "pro")
	c.ok("workspace", "add", "Acme", "Web")
	c.ok("person", "add", "Acme", "ann@example.com", "--workspace", "Web")
	c.withProperty()
	key, _ := c.object(keyMembers+" key", "key", "create", "ann@example.com", "--name", "test")["key"].(string)
	wantStatus(t, 200, base+"/v1/me", key)

	// A slow request that is under way when the signal comes is finished.
	if err := simulator.SetFaults(gscsim.Faults{LatencyMS: 700}); err != nil {
		t.Fatal(err)
	}
	before := simulator.Calls().SearchAnalytics
	slow := make(chan answer, 1)
	go func() { slow <- get(base+"/v1/properties/shop/queries", key) }()
	for deadline := time.Now().Add(hurry); simulator.Calls().SearchAnalytics == before && time.Now().Before(deadline); {
		wantStatus(t, 200, admin+"/livez", "") // until the slow one has come as far as Search Console
	}
	p.stopped()
	if a := <-slow; a.err != nil || a.status != 200 {
		t.Errorf("the request under way was cut off: %d %v\n%.300s", a.status, a.err, a.body)
	}
	if err := simulator.SetFaults(gscsim.Faults{}); err != nil {
		t.Fatal(err)
	}
	c.said.Write(p.stderr.Bytes())
	for _, want := range []string{"msg=starting", "settings.database_url=sqlite:", "settings.secret_key=set", "msg=stopped"} {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, p.stderr)
		}
	}
	if strings.Contains(p.stderr.String(), key) {
		t.Error("the key is in the log")
	}
	c.keptSecrets(people)
}

func testDrain(t *testing.T, binary string) {
	p, base, admin := serving(t, binary, []string{"SARA_SHUTDOWN_DELAY=1s", "SARA_LOG_FORMAT=json"})
	p.signal(syscall.SIGTERM)
	until(t, 503, admin+"/readyz")
	wantStatus(t, 200, admin+"/livez", "")
	wantStatus(t, 401, base+"/v1/me", "")
	if _, err := p.wait(); err != nil {
		t.Errorf("after the delay: %v\n%s", err, p.stderr)
	}
	for line := range strings.Lines(p.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is not JSON: %q", line)
		}
	}
}

func testSecondSignal(t *testing.T, binary string) {
	p, _, admin := serving(t, binary, []string{"SARA_SHUTDOWN_DELAY=1h"})
	p.signal(os.Interrupt)
	until(t, 503, admin+"/readyz")
	p.signal(os.Interrupt)
	_, err := p.wait()
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) {
		t.Fatalf("ended with %v, want by a signal", err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGINT {
		t.Errorf("ended with %v, want by the second signal", err)
	}
}

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
	p := start(t, binary, []string{"TMPDIR=" + temporary}, "demo", "--json", "--listen", "127.0.0.1:0")
	var world demoLine
	decoder := json.NewDecoder(strings.NewReader(p.line()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&world); err != nil {
		t.Fatal(err)
	}
	t.Run("keys", func(t *testing.T) { testDemoKeys(t, world) })
	t.Run("properties", func(t *testing.T) { testDemoProperties(t, world) })
	t.Run("configuration of main", func(t *testing.T) { testDemoMain(t, world) })
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
	names := []string{"main", "prefix", "archived", "disconnected", "fresh", "twin_a", "twin_b", "foreign"}
	if len(world.Properties) != len(names) {
		t.Errorf("there are %d properties, want %d", len(world.Properties), len(names))
	}
	for _, name := range names {
		p := world.Properties[name]
		if len(p) != 4 {
			t.Errorf("property %s has the members %v", name, p)
		}
		// Each key asks for few, since a plan bounds its requests in a minute.
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
			wantStatus(t, reached, at(p["domain"]), world.Keys["agency"])
			wantStatus(t, reached, at(url.PathEscape(p["gsc_property"])), world.Keys["agency"])
			continue
		}
		a := wantStatus(t, 400, at(p["domain"]), world.Keys["agency"])
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
	for _, name := range []string{"main", "prefix", "fresh", "twin_a", "twin_b"} {
		wantStatus(t, 200, at(world.Properties[name]["id"])+"/summary", world.Keys["agency"])
	}
	if a := wantStatus(t, 200, at(world.Properties["archived"]["id"]), world.Keys["agency"]); !strings.Contains(a.body, `"archived":true`) {
		t.Errorf("archived: %s", a.body)
	}
	listed := wantStatus(t, 200, world.BaseURL+"/v1/properties", world.Keys["agency"])
	if !strings.Contains(listed.body, `"total":6`) || !strings.Contains(listed.body, `"starred":true`) {
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

// testDemoTable pastes what the demo tells people to try.
func testDemoTable(t *testing.T, binary string) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	p := start(t, binary, nil, "demo", "--listen", "127.0.0.1:0")
	var tries []string
	for len(tries) < 3 {
		if line := p.line(); strings.HasPrefix(line, "curl ") {
			tries = append(tries, line)
		}
	}
	for _, try := range tries {
		out, err := exec.Command("sh", "-c", try+" -sS --fail --noproxy '*'").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(`"success":true`)) {
			t.Errorf("%s: %v\n%.300s", try, err, out)
		}
	}
	p.stopped()
}
