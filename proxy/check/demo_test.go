package check

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"syscall"
	"testing"

	"sara/cmd/sara/saratest"
)

// A demo is a running `sara demo`, as it describes itself on its first line.
type demo struct {
	BaseURL    string `json:"base_url"`
	Keys       map[string]string
	Properties map[string]struct {
		ID          string
		GSCProperty string `json:"gsc_property"`
	}

	program string // sara
}

// startDemo starts a demo that ends with the test.
func startDemo(t *testing.T) demo {
	t.Helper()
	program := saratest.Binary(t)
	command := exec.Command(program, "demo", "--json", "--listen", "127.0.0.1:0")
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("the demo ends with: %v", err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the demo prints no line: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }() // until the demo closes it
	d := demo{program: program}
	if err := json.Unmarshal(line, &d); err != nil {
		t.Fatalf("the demo prints %q: %v", line, err)
	}
	return d
}

// TestDemo starts one demo for all tests, since its history takes longer to seed than most of them run.
func TestDemo(t *testing.T) {
	d := startDemo(t)
	t.Run("the MCP endpoint conforms to its specification", func(t *testing.T) { testMCPConforms(t, d) })
	t.Run("the OpenAPI document describes the answers", func(t *testing.T) { testOpenAPIDescribesTheAnswers(t, d) })
	t.Run("the programs in the guides run", func(t *testing.T) { testGuideSamplesRun(t, d) })
	t.Run("the reference has no broken link", func(t *testing.T) { testLinksOfTheReference(t, d) })
	t.Run("the reference works in a browser", func(t *testing.T) { testReferenceInABrowser(t, d) })
	t.Run("the reference is accessible", func(t *testing.T) { testPagesAreAccessible(t, d) })
	t.Run("the TypeScript clients of MCP call every tool", func(t *testing.T) { testMCPWithTypeScript(t, d) })
}

// get sends a request to the demo, and returns the answer with its whole body.
func (d demo) get(t *testing.T, method, path, key string, header http.Header) (*http.Request, *http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequest(method, d.BaseURL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
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
