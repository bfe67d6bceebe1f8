package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"sara/cmd/sara/saratest"
)

// The SBOM lists exactly the modules that go lists for the binary's packages, each with the hash from go.sum.
func TestBillAgreesWithGoSum(t *testing.T) {
	binary := saratest.Binary(t)
	var out bytes.Buffer
	if err := run([]string{binary, "v1.2.3"}, &out); err != nil {
		t.Fatal(err)
	}
	var bill cdx.BOM
	if err := cdx.NewBOMDecoder(&out, cdx.BOMFileFormatJSON).Decode(&bill); err != nil {
		t.Fatal(err)
	}
	program := bill.Metadata.Component
	if bill.SpecVersion != cdx.SpecVersion1_6 || program.Name != "sara" || program.Version != "v1.2.3" || len((*program.Hashes)[0].Value) != 64 {
		t.Errorf("the bill is of %+v", program)
	}
	sums, err := os.ReadFile("../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for _, part := range *bill.Components {
		listed[part.Name] = true
		if part.Name == "stdlib" {
			if part.Version != strings.TrimPrefix(runtime.Version(), "go") {
				t.Errorf("the standard library is %s, not that of %s", part.Version, runtime.Version())
			}
			continue
		}
		hash, err := hex.DecodeString((*part.Hashes)[0].Value)
		if line := part.Name + " " + part.Version + " h1:" + base64.StdEncoding.EncodeToString(hash) + "\n"; err != nil ||
			!strings.Contains("\n"+string(sums), "\n"+line) {
			t.Errorf("go.sum lacks %q", line)
		}
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/sara")
	list.Dir = filepath.Join("..", "..")
	modules, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]bool{"stdlib": true}
	for name := range strings.FieldsSeq(string(modules)) {
		wanted[name] = true
		if !listed[name] {
			t.Errorf("the bill lacks %s", name)
		}
	}
	if len(listed) != len(wanted) {
		t.Errorf("%d modules are listed, %d are in the binary", len(listed), len(wanted))
	}
}

func TestBillOfNoGoProgram(t *testing.T) {
	if err := run([]string{"main.go"}, new(bytes.Buffer)); err == nil {
		t.Error("a text has a bill")
	}
	if err := run(nil, new(bytes.Buffer)); err == nil {
		t.Error("nothing has a bill")
	}
}
