package atomicfile

import (
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
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
