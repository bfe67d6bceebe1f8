package check

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A sample is a code block of a guide.
type sample struct {
	guide, language, code string
	number                int
}

// otherTools is the guide whose programs are for other tools than ours: testGuideToTheTools runs them.
const otherTools = "tools"

// samples returns the programs of all guides but one.
func samples(t *testing.T) (list []sample) {
	t.Helper()
	guides, err := filepath.Glob("../docs/guides/*.md")
	if err != nil {
		t.Fatal(err)
	}
	fence := regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")
	for _, guide := range guides {
		if strings.TrimSuffix(filepath.Base(guide), ".md") == otherTools {
			continue
		}
		text, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		for i, found := range fence.FindAllSubmatch(text, -1) {
			if language := string(found[1]); language != "json" {
				list = append(list, sample{guide: strings.TrimSuffix(filepath.Base(guide), ".md"), language: language, code: string(found[2]), number: i})
			}
		}
	}
	return list
}

// Every program in the guides runs unchanged except for address, key and property. Those of the guide on limits are refused once first, to
// exercise their backoff.
func testGuideSamplesRun(t *testing.T, d demo) {
	if testing.Short() {
		t.Skip("compiles and runs programs")
	}
	list := samples(t)
	languages := map[string]int{}
	for _, s := range list {
		languages[s.language]++
		t.Run(fmt.Sprintf("%s/%d_%s", s.guide, s.number, s.language), func(t *testing.T) {
			refusals := 0
			if s.guide == "limits" {
				refusals = 1
			}
			front, answered := d.refusing(t, refusals)
			out := s.execute(t, front, d.Keys["workspace_scoped"], d.Properties["main"]["id"])
			if answered.Load() == 0 || strings.TrimSpace(out) == "" {
				t.Errorf("%d requests were answered, and it prints %q", answered.Load(), out)
			}
		})
	}
	for _, language := range []string{"sh", "python", "go", "js"} {
		if languages[language] == 0 {
			t.Errorf("no guide has a sample in %s", language)
		}
	}
}

// refusing starts a reverse proxy before the demo that answers the first requests with 429. It counts the successes of the others, and
// fails the test if there is an error.
func (d demo) refusing(t *testing.T, refusals int) (address string, answered *atomic.Int64) {
	t.Helper()
	target, err := url.Parse(d.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	answered = new(atomic.Int64)
	reverse := httputil.NewSingleHostReverseProxy(target)
	reverse.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode != http.StatusOK {
			t.Errorf("GET %s is answered with %s", r.Request.URL, r.Status)
		}
		answered.Add(1)
		return nil
	}
	var left atomic.Int64
	left.Store(int64(refusals))
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if left.Add(-1) >= 0 {
			rw.Header().Set("Retry-After", "0")
			rw.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(rw, `{"success":false,"error":{"code":"RATE_LIMITED","message":"wait","request_id":"req_1","docs_url":""}}`)
			return
		}
		reverse.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, answered
}

// execute runs a sample against an address, about a property, and returns its output.
func (s sample) execute(t *testing.T, address, key, property string) string {
	t.Helper()
	const mark = "https://api.example.com"
	if !strings.Contains(s.code, mark) {
		t.Fatalf("the sample does not use %s", mark)
	}
	program := map[string][]string{
		"sh": {"bash", "-eu", "sample.sh"}, "python": {"python3", "sample.py"}, "js": {"node", "sample.mjs"}, "go": {"go", "run", "sample.go"},
	}[s.language]
	if program == nil {
		t.Fatalf("no program runs %s", s.language)
	}
	if _, err := exec.LookPath(program[0]); err != nil {
		t.Skipf("%s is not installed", program[0])
	}
	folder := t.TempDir()
	code := strings.NewReplacer(mark, address, "/example.com", "/"+property).Replace(s.code)
	if err := os.WriteFile(filepath.Join(folder, program[len(program)-1]), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program[0], program[1:]...)
	command.Dir = folder
	command.Env = append(os.Environ(), "API_KEY="+key, "no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1")
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("it fails: %v\n%s%s", err, stdout.String(), stderr.String())
	}
	return stdout.String()
}
