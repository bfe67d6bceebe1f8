package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommandName(t *testing.T) {
	for called, want := range map[string]string{
		"sara": "sara", "sara-admin": "sara-admin", "./sara": "./sara", "/sara": "/sara", "/opt/s ara/sara": "'/opt/s ara/sara'",
		"/tmp/go-build1/b001/exe/sara": "sara",
	} {
		if got := CommandName(called); got != want {
			t.Errorf("called as %s: %s, want %s", called, got, want)
		}
	}
}

// endless is an input of zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestReadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("file"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Console{Stdin: strings.NewReader("input")}
	for path, want := range map[string]string{file: "file", "-": "input"} {
		if got, err := c.ReadFile(t.Context(), path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if _, err := c.ReadFile(t.Context(), file+"x"); err == nil {
		t.Error("no error for a file that does not exist")
	}
	// One that never ends, or another than was meant.
	c.Stdin = endless{}
	if err := os.Truncate(file, 1<<30); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{file: file, "-": "standard input"} {
		if _, err := c.ReadFile(t.Context(), path); err == nil || err.Error() != want+" has more than 16777216 bytes: name another file" {
			t.Errorf("%s: %v", path, err)
		}
	}
}
