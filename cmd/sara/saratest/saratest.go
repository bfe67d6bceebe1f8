// Package saratest builds sara for tests, and for measurements, that run it as a process. It also sends a demo the examples of a page.
package saratest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Binary returns the path of a built sara: the one that SARA_BINARY names, or one that it builds.
//
// It also keeps go test from reusing a cached result when sara has changed. The cache knows the packages that a test imports
// and the files that the test opens inside its own module, but not the sources of a program that the test runs. In the module
// of sara, Binary therefore opens the folders with the sources. Other modules cannot do that, and neither is the binary that
// SARA_BINARY names inside the module: then the result must not be cached at all (see neverCache).
func Binary(t testing.TB) (path string) {
	t.Helper()
	if path := os.Getenv("SARA_BINARY"); path != "" {
		neverCache(t)
		return path
	}
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if goMod(t) != filepath.Join(root, "go.mod") {
		neverCache(t)
	} else if err := openSources(root); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "sara")
	if err := Build(t.Context(), path, ""); err != nil {
		t.Fatal(err)
	}
	return path
}

// Build builds sara, with additional flags for the linker. The working directory must be inside sara's module, or inside a
// module that requires it with a replace directive.
func Build(ctx context.Context, path, linkerFlags string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	// Without debug information: it takes as long to link as all the rest.
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w "+linkerFlags, "-o", path, "./cmd/sara")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build sara: %w\n%s", err, out)
	}
	return nil
}

func moduleRoot(ctx context.Context) (string, error) {
	return output(exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sara"))
}

// goMod returns the path of the go.mod file that applies to the working directory.
func goMod(t testing.TB) string {
	t.Helper()
	path, err := output(exec.CommandContext(t.Context(), "go", "env", "GOMOD"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func output(command *exec.Cmd) (string, error) {
	command.Stderr = new(bytes.Buffer)
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", command, err, command.Stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// openSources opens all folders with sources of sara. Of a folder that a test opens, go test remembers the names, sizes and
// modification times of the files.
func openSources(root string) error {
	for _, tree := range []string{"archive", "cmd", "policy", "proxy", "translate"} {
		err := filepath.WalkDir(filepath.Join(root, tree), func(_ string, _ fs.DirEntry, err error) error { return err })
		if err != nil {
			return err
		}
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			return err
		}
	}
	return nil
}

// neverCache opens a file whose modification time is in the future. go test does not cache the result of a test that has
// opened a file of its module that is less than two seconds old, because such a file may still be changing.
func neverCache(t testing.TB) {
	t.Helper()
	path := filepath.Join(filepath.Dir(goMod(t)), ".uncached")
	const explanation = "Its modification time keeps go test from caching results: see go doc sara/cmd/sara/saratest.Binary\n"
	if err := os.WriteFile(path, []byte(explanation), 0o644); err != nil {
		t.Fatal(err)
	}
	future := time.Now().AddDate(10, 0, 0)
	if err := os.Chtimes(path, future, future); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
}
