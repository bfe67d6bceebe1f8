package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// kubernetesVersion is the version of the schemas.
	kubernetesVersion = "1.30"
	// schemaModule has the schemas as files. It is not in go.mod, because none of its packages is compiled.
	schemaModule = "sigs.k8s.io/kubectl-validate@v0.0.4"
	schemaSum    = "h1:tGKuv0awYHn11Cb6KPsZKxUmHgavF46K3NvVH0Nse9U="
)

// A schema is an OpenAPI 3 schema of Kubernetes. The server checks more than that, such as the values of enumerations.
type schema struct {
	Ref                  string             `json:"$ref"`
	AllOf                []*schema          `json:"allOf"`
	OneOf                []*schema          `json:"oneOf"`
	Type                 string             `json:"type"`
	Properties           map[string]*schema `json:"properties"`
	Required             []string           `json:"required"`
	Items                *schema            `json:"items"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	Kinds                []kind             `json:"x-kubernetes-group-version-kind"`
}

type kind struct {
	Group, Version, Kind string
}

// schemas are the schemas of one group and version, by name.
type schemas map[string]*schema

// readSchemas reads the schemas of a group and version, such as apps/v1 or v1.
func readSchemas(t *testing.T, folder, apiVersion string) schemas {
	t.Helper()
	path := filepath.Join(folder, "apis", apiVersion+".json")
	if !strings.Contains(apiVersion, "/") {
		path = filepath.Join(folder, "api", apiVersion+".json")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas schemas `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return document.Components.Schemas
}

// schemaFolder downloads the module with the schemas, and returns their folder.
func schemaFolder(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", schemaModule).Output()
	if err != nil {
		t.Fatalf("download the schemas: %v\n%s", err, out)
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	if module.Sum != schemaSum {
		t.Fatalf("%s has the checksum %s, want %s", schemaModule, module.Sum, schemaSum)
	}
	return filepath.Join(module.Dir, "pkg", "openapiclient", "builtins", kubernetesVersion)
}

// of returns the schema of a kind.
func (s schemas) of(k kind) *schema {
	for _, candidate := range s {
		if slices.Contains(candidate.Kinds, k) && candidate.Properties["metadata"] != nil {
			return candidate
		}
	}
	return nil
}

// check returns an error for unknown and missing fields, and for values of the wrong type.
func (s schemas) check(of *schema, value any, at string) error {
	switch {
	case of.Ref != "":
		return s.check(s[strings.TrimPrefix(of.Ref, "#/components/schemas/")], value, at)
	case len(of.AllOf) > 0:
		var errs []error
		for _, part := range of.AllOf {
			errs = append(errs, s.check(part, value, at))
		}
		return errors.Join(errs...)
	case len(of.OneOf) > 0:
		if slices.ContainsFunc(of.OneOf, func(one *schema) bool { return s.check(one, value, at) == nil }) {
			return nil
		}
		return fmt.Errorf("%s: %v has none of the allowed types", at, value)
	}
	switch value := value.(type) {
	case map[string]any:
		return s.checkObject(of, value, at)
	case []any:
		if of.Type != "array" {
			return fmt.Errorf("%s: a list, want %s", at, of.Type)
		}
		var errs []error
		for i, item := range value {
			errs = append(errs, s.check(of.Items, item, fmt.Sprintf("%s[%d]", at, i)))
		}
		return errors.Join(errs...)
	}
	return checkScalar(of, value, at)
}

func (s schemas) checkObject(of *schema, value map[string]any, at string) error {
	if of.Type != "object" {
		return fmt.Errorf("%s: a mapping, want %s", at, of.Type)
	}
	var errs []error
	for name, field := range value {
		known := of.Properties[name]
		if known == nil {
			known = of.AdditionalProperties
		}
		if known == nil {
			errs = append(errs, fmt.Errorf("%s: unknown field %q", at, name))
			continue
		}
		errs = append(errs, s.check(known, field, at+"."+name))
	}
	for _, name := range of.Required {
		if _, ok := value[name]; !ok {
			errs = append(errs, fmt.Errorf("%s: required field %q is missing", at, name))
		}
	}
	return errors.Join(errs...)
}

func checkScalar(of *schema, value any, at string) error {
	fits := false
	switch value := value.(type) {
	case string:
		fits = of.Type == "string"
	case bool:
		fits = of.Type == "boolean"
	case float64:
		fits = of.Type == "number" || of.Type == "integer" && value == math.Trunc(value)
	}
	if !fits {
		return fmt.Errorf("%s: %v (%T), want %s", at, value, value, of.Type)
	}
	return nil
}
