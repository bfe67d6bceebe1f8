package check

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// An example is an answer that the API reference shows.
type example struct {
	Request string          `json:"request"`
	Answer  json.RawMessage `json:"answer"`
}

var update = flag.Bool("update", false, "rewrite the examples of the API reference")

// testExamplesOfReference sends the requests of the API reference's examples to the demo: the answers are real. With -update, it rewrites
// them.
func testExamplesOfReference(t *testing.T, d demo) {
	files, err := filepath.Glob("../openapi/examples/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples (%v)", len(files), err)
	}
	// What no two demos have in common: ids, times, and what was asked before.
	varies := regexp.MustCompile(
		`[0-9a-f]{8}-[0-9a-f-]{27}|req_[0-9a-f]{32}|\d{4}-\d\d-\d\dT[0-9:.]+Z|"cache":"[a-z]+"|"(requests|search_console_calls)_[a-z_]*(today|hour)":\d+`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var e example
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		got := d.want(t, 200, e.Request, keyOfExample(e.Request))
		if *update {
			writeExample(t, file, e.Request, got)
			continue
		}
		var want bytes.Buffer
		if err := json.Compact(&want, e.Answer); err != nil {
			t.Fatal(err)
		}
		if varies.ReplaceAllString(got, "…") != varies.ReplaceAllString(want.String(), "…") {
			t.Errorf("GET %s answers otherwise than %s says: look at the change, then run with -update\n%s", e.Request, file, got)
		}
	}
}

// keyOfExample spreads the requests over keys, whose limits are counted apart.
func keyOfExample(request string) string {
	switch {
	case request == "/v1/me":
		return "pro"
	case strings.HasPrefix(request, "/v1/properties/"):
		return "workspace_scoped"
	}
	return "agency"
}

func writeExample(t *testing.T, file, request, answer string) {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(example{Request: request, Answer: json.RawMessage(answer)}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
