package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each failure leaves the file as it was, and nothing beside it.
func TestReplaceIsWholeOrNothing(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for _, test := range []struct {
		name  string
		write func(io.Writer) error
		err   error
		want  string
	}{
		{"written", func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }, nil, "new"},
		{"empty", func(io.Writer) error { return nil }, nil, ""},
		{"half written", func(w io.Writer) error { _, err := io.WriteString(w, "ne"); return errors.Join(err, failed) }, failed, "old"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			file := filepath.Join(folder, "within", "file")
			if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("old"), 0o644)); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(folder)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = root.Close() }()
			if err := Replace(root, "within/file", test.write); !errors.Is(err, test.err) {
				t.Errorf("the error is %v, want %v", err, test.err)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != test.want {
				t.Errorf("the file has %q, %v, want %q", text, err, test.want)
			}
			if info, err := os.Stat(file); test.err == nil && (err != nil || info.Mode().Perm() != 0o600) {
				t.Errorf("it is %v, %v: others must not read it", info, err)
			}
			if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
				t.Errorf("beside it are %v, %v", entries, err)
			}
		})
	}
}

func TestReplaceSaysWhatItCannotReplace(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "name", "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	nothing := func(io.Writer) error { return nil }
	for _, name := range []string{"name", "absent/file"} {
		if err := Replace(root, name, nothing); err == nil || !strings.Contains(err.Error(), filepath.Join(folder, path.Dir(name))) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("it leaves %v, %v", entries, err)
	}
}

// A killed process leaves its file. Other files stay, whatever their names begin with.
func TestRemoveAbandoned(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	if err := errors.Join(root.Mkdir("a", 0o700), root.Mkdir("b", 0o700)); err != nil {
		t.Fatal(err)
	}
	nothing := func(io.Writer) error { return nil }
	var left []string
	for _, directory := range []string{".", "a", "b"} {
		temporary, err := Create(root, directory, nothing)
		if err != nil {
			t.Fatal(err)
		}
		notes := path.Join(directory, ".tmp-notes")
		if left = append(left, notes); directory == "b" {
			left = append(left, temporary) // no pattern matches it
		}
		if err := Replace(root, notes, nothing); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveAbandoned(root, ".", "a*", "none"); err != nil {
		t.Error(err)
	}
	var found []string
	for _, pattern := range []string{".tmp-*", "*/.tmp-*"} {
		names, err := fs.Glob(root.FS(), pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, names...)
	}
	slices.Sort(found)
	slices.Sort(left)
	if !slices.Equal(found, left) {
		t.Errorf("it leaves %v, want %v", found, left)
	}
}
