package proxy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// declared reports whether a file of Go declares a function, or a method as Type.method.
func declared(t *testing.T, path, name string) bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		full := function.Name.Name
		if function.Recv != nil {
			receiver := function.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			full = receiver.(*ast.Ident).Name + "." + full
		}
		if full == name {
			return true
		}
	}
	return false
}

// The functions that the package documentation walks through exist in the files that it names.
func TestPathOfARequestNamesExistingFunctions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	prose := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n//", " ")), " ")
	steps := regexp.MustCompile(`([a-z/]+\.go), ((?:[A-Za-z]+\.)?[A-Za-z0-9]+)[);]`).FindAllStringSubmatch(prose, -1)
	if len(steps) < 20 {
		t.Fatalf("the documentation names %d functions, want more", len(steps))
	}
	for _, step := range steps {
		path := step[1]
		if strings.Contains(path, "/") {
			path = filepath.Join("..", path)
		}
		if !declared(t, path, step[2]) {
			t.Errorf("doc.go names %s of %s, which does not exist", step[2], step[1])
		}
	}
}
