// Package nodetest installs packages of Node.js for tests, once per machine: npm takes longer to do so than most tests take to run.
package nodetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Install provides a folder with the packages of its package.json, which pins their exact versions. The folder gets a link: the packages
// stay in the user's cache, and tests only read them. It skips the test if they cannot be installed.
func Install(tb testing.TB, folder string) {
	tb.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		tb.Skip("npm is not installed")
	}
	wanted, err := os.ReadFile(filepath.Join(folder, manifest))
	if err != nil {
		tb.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = tb.TempDir()
	}
	sum := sha256.Sum256(wanted)
	shared := filepath.Join(cache, "sara-tests", "node-"+hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(shared); errors.Is(err, fs.ErrNotExist) {
		err = install(tb.Context(), npm, wanted, shared)
		if err != nil {
			tb.Skipf("the packages of Node.js cannot be installed: %v", err)
		}
	}
	if err := os.Symlink(filepath.Join(shared, packages), filepath.Join(folder, packages)); err != nil {
		tb.Fatal(err)
	}
}

const (
	manifest = "package.json"
	packages = "node_modules"
)

// install makes a folder with packages and renames it when it is complete. Another process may make the same one at the same time.
func install(ctx context.Context, npm string, wanted []byte, folder string) (err error) {
	if err := os.MkdirAll(filepath.Dir(folder), 0o700); err != nil {
		return err
	}
	making, err := os.MkdirTemp(filepath.Dir(folder), "making-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(making)) }()
	if err := os.WriteFile(filepath.Join(making, manifest), wanted, 0o600); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, npm, "install", "--prefer-offline", "--no-audit", "--no-fund", "--no-package-lock", "--fetch-retries=0")
	command.Dir = making
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("npm: %w\n%s", err, out)
	}
	if err := os.Rename(making, folder); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
