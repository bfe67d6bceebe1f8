package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sara/cmd/sara/saratest"
)

// A demo is a running `sara demo`.
type demo struct {
	saratest.World // as it describes itself on its first line

	program string // sara
	folder  string // of its temporary files
}

// startDemo starts a demo of saratest.PageTime that ends with the test, and leaves nothing.
func startDemo(t *testing.T, program string) demo {
	t.Helper()
	d := demo{program: program, folder: t.TempDir()}
	command := exec.Command(program, "demo", "--json", "--listen", "127.0.0.1:0")
	offset := time.Until(saratest.PageTime()).Truncate(time.Second)
	// With a heap as small as the demo's, it would spend a third of its time on garbage collection.
	command.Env = append(os.Environ(), "TMPDIR="+d.folder, "SARA_CLOCK_OFFSET="+offset.String(), "GOGC=400")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	pipe, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	stdout := bufio.NewReader(pipe)
	t.Cleanup(func() {
		if err := command.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		rest, readErr := io.ReadAll(stdout)
		if err := errors.Join(readErr, command.Wait()); err != nil || len(rest) > 0 {
			t.Errorf("after being interrupted: %v and more output %q\n%s", err, rest, &stderr)
		}
		if left, err := filepath.Glob(filepath.Join(d.folder, "*")); err != nil || len(left) > 0 {
			t.Errorf("the demo leaves %v (%v)", left, err)
		}
	})
	line, err := stdout.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the demo prints no line: %v", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d.World); err != nil {
		t.Fatalf("the demo prints %q: %v", line, err)
	}
	return d
}

// TestDemo starts two demos, since their history takes longer to seed than most tests run. One would do but for its limits: the tests of
// both send more than it answers in a minute.
func TestDemo(t *testing.T) {
	program := saratest.Binary(t)
	t.Run("its world and the pages", func(t *testing.T) {
		t.Parallel()
		d := startDemo(t, program)
		t.Run("the decisions have true examples", func(t *testing.T) { testDecisions(t, d) }) // first: some show counts
		t.Run("the reference has true examples", func(t *testing.T) { testExamplesOfReference(t, d) })
		t.Run("keys", func(t *testing.T) { testKeys(t, d) })
		t.Run("properties", func(t *testing.T) { testProperties(t, d) })
		t.Run("configuration of main", func(t *testing.T) { testConfigurationOfMain(t, d) })
		t.Run("history", func(t *testing.T) { testHistory(t, d) })
		t.Run("other addresses", func(t *testing.T) { testOtherAddresses(t, d) })
		t.Run("guides", func(t *testing.T) {
			t.Run("programs", func(t *testing.T) { testGuideSamplesRun(t, d) })
			t.Run("to the tools", func(t *testing.T) { testGuideToTheTools(t, d) })
			t.Run("to agencies", func(t *testing.T) { testGuideToAgencies(t, d) })
		})
	})
	t.Run("its interfaces", func(t *testing.T) {
		t.Parallel()
		d := startDemo(t, program)
		t.Run("the MCP endpoint conforms to its specification", func(t *testing.T) { testMCPConforms(t, d) })
		t.Run("the OpenAPI document describes the answers", func(t *testing.T) { testOpenAPIDescribesTheAnswers(t, d) })
		t.Run("the reference has no broken link", func(t *testing.T) { testLinksOfTheReference(t, d) })
		t.Run("the reference works in a browser", func(t *testing.T) { testReferenceInABrowser(t, d) })
		t.Run("the reference is accessible", func(t *testing.T) { testPagesAreAccessible(t, d) })
		t.Run("the TypeScript clients of MCP call every tool", func(t *testing.T) { testMCPWithTypeScript(t, d) })
	})
}

// get sends a request to the demo, and returns the answer with its whole body.
func (d demo) get(t *testing.T, method, path, key string, header http.Header) (*http.Request, *http.Response, []byte) {
	t.Helper()
	return d.ask(t, method, d.BaseURL+path, key, header)
}

// ask sends a request to an address of the demo.
func (d demo) ask(t *testing.T, method, address, key string, header http.Header) (*http.Request, *http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequest(method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(request.Header, header)
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+d.Keys[key])
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return request, answer, body
}

// want returns the body of the answer to a GET request, which must have a status.
func (d demo) want(t *testing.T, status int, path, key string) (body string) {
	t.Helper()
	_, answer, text := d.get(t, http.MethodGet, path, key, nil)
	if answer.StatusCode != status {
		t.Errorf("GET %s with the key %q: %s, want %d\n%.300s", path, key, answer.Status, status, text)
	}
	return string(text)
}

// front starts a reverse proxy, so that clients reach the demo at another address than its own base URL.
func (d demo) front(t *testing.T) (base string) {
	t.Helper()
	target, err := url.Parse(d.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(httputil.NewSingleHostReverseProxy(target))
	t.Cleanup(server.Close)
	return server.URL
}
