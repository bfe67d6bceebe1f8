// Package duckdbtest runs SQL in DuckDB for tests: an implementation of file formats and sums that shares no code with sara.
package duckdbtest

import (
	"context"
	"embed"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sara/archive/nodetest"
)

//go:embed package.json run.js
var program embed.FS

// DuckDB is an installed DuckDB.
type DuckDB struct {
	t      testing.TB
	folder string
}

// New installs DuckDB, or skips the test if it cannot.
func New(t testing.TB) *DuckDB {
	t.Helper()
	if testing.Short() {
		t.Skip("installing DuckDB takes several seconds")
	}
	d := &DuckDB{t: t, folder: t.TempDir()}
	if err := os.CopyFS(d.folder, program); err != nil {
		t.Fatal(err)
	}
	nodetest.Install(t, d.folder)
	return d
}

// Rows runs SQL statements in a new database, and returns the rows of the last, each a JSON array.
func (d *DuckDB) Rows(statements ...string) []string {
	d.t.Helper()
	run := d.command(d.t.Context(), statements)
	run.Stderr = os.Stderr
	out, err := run.Output()
	if err != nil {
		d.t.Fatalf("%q: %v", statements, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// FetchHTTP lets Rows read URLs: DuckDB fetches its extension httpfs. It skips the test if that fails.
func (d *DuckDB) FetchHTTP(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if out, err := d.command(ctx, []string{"INSTALL httpfs"}).CombinedOutput(); err != nil {
		t.Skipf("DuckDB cannot fetch its extension httpfs: %v\n%s", err, out)
	}
}

func (d *DuckDB) command(ctx context.Context, statements []string) *exec.Cmd {
	run := exec.CommandContext(ctx, "node", append([]string{"run.js"}, statements...)...)
	run.Dir = d.folder
	return run
}
