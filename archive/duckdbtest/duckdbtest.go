// Package duckdbtest runs SQL in DuckDB for tests: an implementation of file formats and sums that shares nothing with sara.
package duckdbtest

import (
	"embed"
	"os"
	"os/exec"
	"strings"
	"testing"
)

//go:embed package.json run.js
var program embed.FS

// New returns a function that runs SQL statements in a new database, and returns the rows of the last, each a JSON array. It installs DuckDB,
// which takes some seconds, and skips the test where that is not possible.
func New(t testing.TB) func(statements ...string) []string {
	t.Helper()
	if testing.Short() {
		t.Skip("installing DuckDB takes some seconds")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed, which installs DuckDB")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, program); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), npm, "install", "--prefer-offline", "--no-audit", "--no-fund", "--no-package-lock",
		"--fetch-retries=0")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("DuckDB cannot be fetched: %v\n%s", err, out)
	}
	return func(statements ...string) []string {
		t.Helper()
		run := exec.CommandContext(t.Context(), "node", append([]string{"run.js"}, statements...)...)
		run.Dir, run.Stderr = dir, os.Stderr
		out, err := run.Output()
		if err != nil {
			t.Fatalf("%q: %v", statements, err)
		}
		return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	}
}
