package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The version that the test builds.
const (
	builtVersion  = "v1.2.3-check"
	builtRevision = "c0ffee"
	builtDate     = "2026-11-01T12:00:00Z"
)

// linkerFlags returns the flags that the Dockerfile links with, for this version.
func linkerFlags(t *testing.T) string {
	t.Helper()
	flags := regexp.MustCompile(`-ldflags "([^"]*)"`).FindStringSubmatch(readFile(t, "../docker/Dockerfile"))
	if flags == nil {
		t.Fatal("the Dockerfile has no -ldflags")
	}
	return strings.NewReplacer("${VERSION}", builtVersion, "${REVISION}", builtRevision, "${DATE}", builtDate).Replace(flags[1])
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sara runs the binary to its end, with only this environment.
func sara(t *testing.T, binary string, environment []string, args ...string) (output string, err error) {
	t.Helper()
	command := exec.Command(binary, args...)
	command.Env, command.Dir = environment, t.TempDir()
	out, err := command.CombinedOutput()
	return string(out), err
}

// patience bounds a start, far above its usual duration.
const patience = 2 * time.Minute

// start runs the binary until the test ends, and returns its first n lines.
func start(t *testing.T, binary string, n int, environment []string, args ...string) []string {
	t.Helper()
	command := exec.Command(binary, args...)
	command.Env, command.Dir = environment, t.TempDir()
	stderr := new(bytes.Buffer)
	command.Stderr = stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
	defer killer.Stop()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil {
			t.Errorf("sara %s: %v\n%s", strings.Join(args, " "), err, stderr)
		}
	})
	var lines []string
	scanner := bufio.NewScanner(stdout)
	for ; len(lines) < n; lines = append(lines, scanner.Text()) {
		if !scanner.Scan() {
			t.Fatalf("sara %s printed %d of %d lines: %v", strings.Join(args, " "), len(lines), n, scanner.Err())
		}
	}
	return lines
}

// get sends a GET, with a key unless that is empty, and returns the status and the body.
func get(t *testing.T, url, key string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}

// demo is the output of sara demo --json.
type demo struct {
	BaseURL     string                               `json:"base_url"`
	AdminURL    string                               `json:"admin_url"`
	UpstreamURL string                               `json:"upstream_url"`
	Keys        map[string]string                    `json:"keys"`
	Properties  map[string]struct{ Slug, ID string } `json:"properties"`
}

func startDemo(t *testing.T, binary string) demo {
	t.Helper()
	line := start(t, binary, 1, nil, "demo", "--json", "--listen", "127.0.0.1:0")[0]
	var world demo
	if err := json.Unmarshal([]byte(line), &world); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	return world
}
