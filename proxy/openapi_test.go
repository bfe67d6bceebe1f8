package proxy

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

func updating() bool {
	return flag.Lookup("update") != nil && flag.Lookup("update").Value.String() == "true"
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "rewrite the golden files")
	flag.Parse()
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
