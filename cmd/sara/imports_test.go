package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	root      = "../.."
	module    = "sara/"
	fasthttp  = "github.com/valyala/fasthttp"
	simulator = "proxy/upstream/gscsim"
)

// mayImport returns the trees of this module that a package may import, its own aside.
func mayImport(folder string) []string {
	switch top, _, _ := strings.Cut(folder, "/"); {
	case isUnder(folder, simulator), top == "translate", top == "policy":
		return nil
	case top == "archive":
		return []string{"translate"}
	case top == "proxy":
		return []string{"policy", "translate", "archive"}
	case top == "bench":
		return []string{simulator}
	case top == "cmd":
		return []string{"policy", "translate", "archive", "proxy"}
	case top == "deploy": // tests of the binary, with servers and the simulator around it
		return []string{simulator, "policy/redistest", "archive/sqlstore/pgtest"}
	}
	return nil
}

// own is the tree that a package may always import from.
func own(folder string) string {
	if isUnder(folder, simulator) {
		return simulator
	}
	top, _, _ := strings.Cut(folder, "/")
	return top
}

func isUnder(folder, tree string) bool { return folder == tree || strings.HasPrefix(folder, tree+"/") }

// sourceFile is what the rules need to know of a Go file.
type sourceFile struct {
	path    string
	isTest  bool
	doc     string // of the package
	imports []string
}

// isModule reports whether a folder is a module by itself, which imports nothing of ours.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// sourceFiles parses the module's files, by folder.
func sourceFiles(t *testing.T) map[string][]sourceFile {
	t.Helper()
	folders := make(map[string][]sourceFile)
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || isModule(name)) {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		file := sourceFile{path: name, isTest: strings.HasSuffix(name, "_test.go"), doc: parsed.Doc.Text()}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			file.imports = append(file.imports, imported)
		}
		relative, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(relative)
		folders[folder] = append(folders[folder], file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(folders["cmd/sara"]) == 0 {
		t.Fatal("the walk does not find this package")
	}
	return folders
}

func TestImportsRunOneWay(t *testing.T) {
	for folder, files := range sourceFiles(t) {
		allowed := append(mayImport(folder), own(folder))
		for _, file := range files {
			for _, imported := range file.imports {
				if !importAllowed(folder, imported, allowed) {
					t.Errorf("%s must not import %s", file.path, imported)
				}
			}
		}
	}
}

func importAllowed(folder, imported string, allowed []string) bool {
	if isUnder(imported, fasthttp) {
		// The load test has a bare server of that library to compare with.
		return isUnder(folder, "proxy") && !isUnder(folder, simulator) || folder == "bench/load"
	}
	ours, ok := strings.CutPrefix(imported, module)
	if !ok {
		return true
	}
	for _, tree := range allowed {
		if isUnder(ours, tree) {
			return true
		}
	}
	return false
}

func TestEveryPackageHasOneDocComment(t *testing.T) {
	for folder, files := range sourceFiles(t) {
		var docs, sources int
		for _, file := range files {
			if file.isTest {
				continue
			}
			sources++
			if file.doc == "" {
				continue
			}
			docs++
			if want := "Package " + path.Base(folder) + " "; !isUnder(folder, "cmd") && !strings.HasPrefix(file.doc, want) {
				t.Errorf("the doc comment in %s does not begin with %q", file.path, want)
			}
		}
		if sources > 0 && docs != 1 {
			t.Errorf("package %s has %d doc comments, want 1", folder, docs)
		}
	}
}

func TestTopLevelIsTheDesigns(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		switch name := entry.Name(); name {
		case "proxy", "policy", "translate", "archive", "cmd", "bench", "deploy", "go.mod", "go.sum", "README.md", "LICENSE":
		case "sara", "sara-data": // what building and running here leaves; not in version control
		default:
			if !strings.HasPrefix(name, ".") {
				t.Errorf("%s does not belong at the top of the repository", name)
			}
		}
	}
}
