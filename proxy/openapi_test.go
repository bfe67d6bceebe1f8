package proxy

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

func updating() bool {
	return flag.Lookup("update") != nil && flag.Lookup("update").Value.String() == "true"
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "rewrite the golden files")
	// Most tests wait half of the time, for a connection or a timeout. The flag's own value still wins.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	flag.Parse()
	debug.SetGCPercent(400) // tests have little in use at a time: with the default, the garbage collector takes a tenth of their time
	os.Exit(m.Run())
}

// The document in the repository is the generated one; `go test ./proxy -run OpenAPIGolden -update` rewrites it.
func TestOpenAPIGolden(t *testing.T) {
	got, err := OpenAPI("https://api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "openapi.json")
	if updating() {
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
	for _, r := range table() {
		if n := len(r.About); n < 30 || n >= 300 || strings.Contains(r.About, "_ERROR") || strings.Contains(r.About, ":read") ||
			!strings.HasSuffix(r.About, ".") {
			t.Errorf("%s has a description of %d characters: %s", r.Operation, n, r.About)
		}
		if len(r.Summary) > 100 || strings.HasSuffix(r.Summary, ".") {
			t.Errorf("%s has the summary %q", r.Operation, r.Summary)
		}
	}
}
