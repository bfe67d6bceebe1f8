package bucket

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sara/archive/atomicfile"
)

func TestOpenCreatesTheFolderOfABarePath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet")
	put(t, open(t, dir), "a/o", "x", "")
	if data, err := os.ReadFile(filepath.Join(dir, "a", "o")); string(data) != "x" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

// Customers' search terms must not be readable by other users of the machine.
func TestFolderIsPrivate(t *testing.T) {
	around := t.TempDir()
	revision := put(t, open(t, filepath.Join(around, "archive")), "a/b/o", "x", "")
	put(t, open(t, filepath.Join(around, "archive")), "a/b/o", "y", revision)
	for path, want := range map[string]os.FileMode{"archive": 0o700, "archive/a": 0o700, "archive/a/b": 0o700, "archive/a/b/o": 0o600} {
		info, err := os.Stat(filepath.Join(around, path))
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != want {
			t.Errorf("%s has mode %o, want %o", path, mode, want)
		}
	}
}

func TestAbandonedTemporaryFilesAreHiddenAndRemoved(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	revision := put(t, b, "a/o", "x", "")
	left := filepath.Join(dir, "a", atomicfile.TemporaryPrefix+"o")
	if err := os.WriteFile(left, []byte("hal"), 0o600); err != nil {
		t.Fatal(err)
	}
	if entries, err := b.List(t.Context(), ""); len(entries) != 1 || err != nil {
		t.Errorf("%v, %v", entries, err)
	}
	put(t, b, "a/o", "y", revision)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// A backup reads whatever is listed.
func TestOnlyObjectsAreListed(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	put(t, b, "a/o", "x", "")
	stray := []string{`a\o`, "a/o\n", "a/\xff", "\xff/o", ".a/o", "a/.o"}
	for _, name := range stray {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := b.List(t.Context(), ""); len(entries) != 1 || entries[0].Name != "a/o" || err != nil {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestRevisionsDifferWhenTheClockMovesBack(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	revision := put(t, b, "o", "x", "")
	seen := map[string]bool{revision: true}
	for range 20 {
		// By the clock, the next write is earlier than the last one.
		future := time.Now().Add(time.Hour)
		if err := os.Chtimes(filepath.Join(dir, "o"), future, future); err != nil {
			t.Fatal(err)
		}
		_, revision, err := b.Get(t.Context(), "o")
		if err != nil {
			t.Fatal(err)
		}
		if revision = put(t, b, "o", "x", revision); seen[revision] {
			t.Fatalf("revision %s is repeated", revision)
		}
		seen[revision] = true
	}
}

func TestLinksOutOfTheFolderAreNotFollowed(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	b := open(t, dir)
	if data, _, err := b.Get(t.Context(), "link/secret"); err == nil {
		t.Errorf("it reads %q", data)
	}
	if _, err := b.Put(t.Context(), "link/new", []byte("x"), ""); err == nil {
		t.Error("it writes")
	}
	if entries, err := b.List(t.Context(), ""); len(entries) != 0 {
		t.Errorf("it lists %v, %v", entries, err)
	}
}

// A write that fails halfway, here because of the shell's limit on file sizes, leaves the object as it was, and no other file.
func TestAFullDiskChangesNothing(t *testing.T) {
	if location := os.Getenv(locationVariable); location != "" {
		b := open(t, location)
		_, revision, err := b.Get(t.Context(), "a/o")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Put(t.Context(), "a/o", make([]byte, 1<<20), revision); err == nil {
			t.Error("it wrote more than the limit")
		}
		return
	}
	dir := t.TempDir()
	revision := put(t, open(t, dir), "a/o", "old", "")
	child := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -f 64 && exec "$0" "$@"`, os.Args[0], "-test.run=^TestAFullDiskChangesNothing$")
	child.Env = append(os.Environ(), locationVariable+"="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, now, err := open(t, dir).Get(t.Context(), "a/o")
	if string(data) != "old" || now != revision || err != nil {
		t.Errorf("the object is %d bytes of revision %s, %v; it was of %s", len(data), now, err, revision)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "a")); err != nil || len(left) != 1 {
		t.Errorf("beside it are %v, %v", left, err)
	}
}

// The test starts itself in child processes, each of which adds its letters.
const (
	locationVariable = "BUCKET_TEST_LOCATION"
	letterVariable   = "BUCKET_TEST_LETTER"
	lettersEach      = 25
)

func TestConcurrentProcessesLoseNoChange(t *testing.T) {
	if location := os.Getenv(locationVariable); location != "" {
		for range lettersEach {
			if err := increment(t.Context(), open(t, location), "a/counter", os.Getenv(letterVariable)); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	dir := t.TempDir()
	const processes = 4
	var running [processes]*exec.Cmd
	for p := range running {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestConcurrentProcessesLoseNoChange$")
		command.Env = append(os.Environ(), locationVariable+"="+dir, fmt.Sprintf("%s=%d", letterVariable, p))
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		running[p] = command
	}
	for _, command := range running {
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	}
	data, _, err := open(t, dir).Get(t.Context(), "a/counter")
	if err != nil {
		t.Fatal(err)
	}
	for p := range processes {
		if n := strings.Count(string(data), fmt.Sprint(p)); n != lettersEach {
			t.Errorf("process %d: found %d of %d letters", p, n, lettersEach)
		}
	}
}
