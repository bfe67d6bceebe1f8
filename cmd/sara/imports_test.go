package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
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

// mayImport lists, for each package of this module, the packages of this module that it may import. A name that ends in /...
// means a tree: as a key, each package in it that has no entry of its own; in a list, any package in it.
var mayImport = map[string][]string{
	"translate":                   {},
	"policy":                      {"policy/flight", "policy/keyring", "policy/lru", "policy/panics", "policy/redisconn"},
	"policy/breaker":              {},
	"policy/flight":               {"policy/panics"},
	"policy/keyring":              {},
	"policy/lru":                  {},
	"policy/panics":               {},
	"policy/redisconn":            {},
	"policy/redistest":            {"policy/redisconn"},
	"archive":                     {"archive/bucket", "archive/tablefile", "policy/flight", "policy/lru", "policy/panics", "translate"},
	"archive/atomicfile":          {},
	"archive/bulkexport":          {"archive", "archive/atomicfile", "archive/filelock", "archive/tablefile", "translate"},
	"archive/duckdbtest":          {"archive/nodetest"},
	"archive/filelock":            {},
	"archive/nodetest":            {},
	"archive/tablefile":           {"translate"},
	"archive/bucket":              {"archive/atomicfile", "archive/filelock", "policy/breaker"},
	"archive/bucket/s3test":       {},
	"archive/sqlstore":            {"policy", "policy/keyring", "translate"},
	"archive/sqlstore/pgtest":     {},
	"archive/sqlstore/sqlitetest": {"archive/sqlstore"},
	"proxy": {"policy", "translate", "archive", "archive/sqlstore", "policy/keyring", "policy/panics", "policy/redisconn", "proxy/cache",
		"proxy/connections", "proxy/cpubound", "proxy/docs", "proxy/fillbudget", "policy/lru", "proxy/mcp", "proxy/media", "proxy/netguard",
		"proxy/openapi", "proxy/redisrows", "proxy/spans", "proxy/tabular", "proxy/upstream"},
	"proxy/cache": {"policy/breaker", "policy/keyring", "policy/panics", "policy/redisconn", "proxy/cpubound", "policy/lru", "proxy/redisrows",
		"translate", "proxy/spans"},
	"proxy/connections":    {"policy"},
	"proxy/cpubound":       {},
	"proxy/docs":           {},
	"proxy/fillbudget":     {},
	"proxy/jobs/schedule":  {"archive/sqlstore", "proxy/upstream"},
	"proxy/jobs/sitemap":   {"proxy/netguard"},
	"proxy/mcp":            {"translate"},
	"proxy/media":          {},
	"proxy/netguard":       {},
	"proxy/openapi":        {"archive", "policy", "translate", "proxy/media", "proxy/tabular"},
	"proxy/jobs/collector": {"archive", "archive/sqlstore", "translate", "proxy/upstream", "proxy/jobs/schedule"},
	"proxy/jobs/inspector": {"archive", "archive/sqlstore", "translate", "proxy/upstream", "proxy/jobs/schedule", "proxy/jobs/sitemap"},
	"proxy/redisinfo":      {"policy/redisconn"},
	"proxy/redisrows":      {"policy/redisconn", "proxy/redisinfo"},
	"proxy/spans":          {},
	"proxy/tabular":        {"proxy/media"},
	"proxy/upstream": {"policy/breaker", "policy/keyring", "policy/panics", "policy/redisconn", "translate", "proxy/cpubound", "proxy/netguard",
		"proxy/spans"},
	"proxy/upstream/losttest": {},
	simulator:                 {},
	"cmd/sara":                {"cmd/sara/internal/command"},
	"cmd/sara/internal/clitest": {"archive/bucket/s3test", "archive/sqlstore", "archive/sqlstore/sqlitetest",
		"cmd/sara/internal/demo", "translate", simulator},
	"cmd/sara/...": {"policy/...", "translate", "archive/...", "proxy/...", "cmd/sara/..."},
}

// testsMayImport lists what the tests of any package may import in addition: sara's binary, the keys that open a store, clients of Redis,
// packages of Node.js, servers and databases to test against, and a network that loses a connection.
var testsMayImport = []string{"cmd/sara/saratest", "policy/keyring", "policy/redisconn", "policy/redistest", "archive/bucket/s3test",
	"archive/duckdbtest", "archive/nodetest", "archive/sqlstore/pgtest", "archive/sqlstore/sqlitetest",
	"proxy/upstream/losttest", simulator}

// testOnly lists what the tests of one package may import in addition, to set up its surroundings.
var testOnly = map[string][]string{
	"cmd/sara":             {"archive/atomicfile", "archive/sqlstore", "cmd/sara/internal/...", "policy", "translate"},
	"proxy":                {"archive/bucket"}, // the storage of the archive
	"proxy/cache":          {"policy"},         // the budget that fills are charged to
	"proxy/jobs/collector": {"archive/bucket"}, // the storage of the archive
	"archive/bulkexport":   {"archive/bucket"}, // the storage of the archive
}

func matches(pattern, folder string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return isUnder(folder, tree)
	}
	return folder == pattern
}

func isUnder(folder, tree string) bool { return folder == tree || strings.HasPrefix(folder, tree+"/") }

// row returns the entry of mayImport that applies to a package.
func row(folder string) (pattern string, allowed []string, ok bool) {
	if allowed, ok := mayImport[folder]; ok {
		return folder, allowed, true
	}
	for pattern, allowed := range mayImport {
		if matches(pattern, folder) {
			return pattern, allowed, true
		}
	}
	return "", nil, false
}

// sourceFile is the part of a Go file that the rules are about.
type sourceFile struct {
	path    string
	isTest  bool
	doc     string // of the package
	imports []string
}

// isModule reports whether a folder is a module by itself. The table is not about it: it can import nothing that is internal to cmd/sara.
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

func TestImportsFollowTheTable(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	for folder, files := range sourceFiles(t) {
		pattern, allowed, ok := row(folder)
		if !ok {
			t.Errorf("mayImport has no entry for package %s", folder)
			continue
		}
		used[pattern] = true
		for _, file := range files {
			for _, imported := range file.imports {
				if !importAllowed(folder, imported, file.isTest, allowed) {
					t.Errorf("%s must not import %s", file.path, imported)
				}
			}
		}
	}
	for pattern := range mayImport {
		if !used[pattern] {
			t.Errorf("mayImport has an entry for %s, which has no Go files", pattern)
		}
	}
}

func importAllowed(folder, imported string, isTest bool, allowed []string) bool {
	if isUnder(imported, fasthttp) {
		return isUnder(folder, "proxy") && !isUnder(folder, simulator)
	}
	ours, ok := strings.CutPrefix(imported, module)
	if !ok {
		return true
	}
	if isTest {
		allowed = slices.Concat(allowed, testsMayImport, testOnly[folder], []string{folder})
	}
	return slices.ContainsFunc(allowed, func(pattern string) bool { return matches(pattern, ours) })
}

// clientTypes finds go-redis' clients, and what has one in it. They cost each package that can reach them a second of compilation: see
// package redisconn.
var clientTypes = regexp.MustCompile(`(?m)(?:^|[^.\w])(redis\.(?:\w*(?:Client|Options|PubSub|AutoPipeliner|Ring)|Tx|Conn|Parse\w*URL))\b`)

func TestOnlyOnePackageNamesClientsOfGoRedis(t *testing.T) {
	t.Parallel()
	const goRedis, home = "github.com/redis/go-redis/v9", "policy/redisconn"
	found := false
	for folder, files := range sourceFiles(t) {
		for _, file := range files {
			if !slices.Contains(file.imports, goRedis) {
				continue
			}
			text, err := os.ReadFile(file.path)
			if err != nil {
				t.Fatal(err)
			}
			named := clientTypes.FindSubmatch(text)
			found = found || named != nil && folder == home
			if named != nil && folder != home {
				t.Errorf("%s has %s; it can have a redisconn.Client", file.path, named[1])
			}
		}
	}
	if !found {
		t.Errorf("the pattern finds none in %s", home)
	}
}

func TestEveryPackageHasOneDocComment(t *testing.T) {
	t.Parallel()
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

func TestTopLevelHasOnlyKnownFolders(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		switch name := entry.Name(); name {
		case "proxy", "policy", "translate", "archive", "cmd", "bench", "deploy", "go.mod", "go.sum", "README.md", "LICENSE":
		case "sara", "sara-data": // left by builds and runs; not in version control
		default:
			if !strings.HasPrefix(name, ".") {
				t.Errorf("%s does not belong at the top of the repository", name)
			}
		}
	}
}
