package openapi

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// The document in the repository is the generated one; `go test ./proxy/openapi -run DocumentGolden -update` rewrites it.
func TestDocumentGolden(t *testing.T) {
	got, err := Document("https://api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "openapi.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the OpenAPI document differs from %s: look at the change, then run with -update", golden)
	}
}

// Generated clients have a type of each list, with a name that people read.
func TestNamesOfLists(t *testing.T) {
	for name, list := range map[string]schema{"Anomalies": rowsSchema(anomalySchema()), "Days": rowsSchema(daySchema()),
		"IndexedURLs": rowsSchema(urlRowSchema())} {
		if list[nameKeyword] != name {
			t.Errorf("a list is named %v, want %s", list[nameKeyword], name)
		}
	}
}

// A description says what an operation is for. Codes, scopes and parameters have places of their own.
func TestDescriptionsOfOperations(t *testing.T) {
	for _, o := range Operations() {
		if n := len(o.About); n < 30 || n >= 300 || strings.Contains(o.About, "_ERROR") || strings.Contains(o.About, ":read") ||
			!strings.HasSuffix(o.About, ".") {
			t.Errorf("%s has a description of %d characters: %s", o.ID, n, o.About)
		}
		if len(o.Summary) > 100 || strings.HasSuffix(o.Summary, ".") {
			t.Errorf("%s has the summary %q", o.ID, o.Summary)
		}
	}
}
