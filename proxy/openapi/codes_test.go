package openapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every code constant is in the table of codes, with a status, and so is explained on the page.
func TestEveryErrorCodeIsInTheTable(t *testing.T) {
	t.Parallel()
	known := Codes()
	for _, folder := range []string{".", "../../policy", "../../translate"} {
		for _, code := range codeConstants(t, folder) {
			if !slices.Contains(known, code) {
				t.Errorf("the code %s of %s is not in the table of codes", code, folder)
			}
		}
	}
	for _, code := range known {
		if (StatusOf(code) == http.StatusInternalServerError) != (code == CodeInternal) {
			t.Errorf("%s has the status %d", code, StatusOf(code))
		}
		if !slices.Contains(codesOf(StatusOf(code)), code) {
			t.Errorf("the OpenAPI document does not have %s", code)
		}
	}
}

// codeConstants returns the values of the constants of a package whose names begin with Code.
func codeConstants(t *testing.T, folder string) (codes []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	isCode := regexp.MustCompile(`^"[A-Z]+(_[A-Z]+)+"$`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "code") {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok && isCode.MatchString(literal.Value) {
				code, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				codes = append(codes, code)
			}
			return true
		})
	}
	if len(codes) == 0 {
		t.Fatalf("%s has no codes", folder)
	}
	return codes
}
