package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommandName(t *testing.T) {
	for called, want := range map[string]string{
		"sara": "sara", "sara-admin": "sara-admin", "./sara": "./sara", "/sara": "/sara", "/opt/s ara/sara": "'/opt/s ara/sara'", "/tmp/go-build1/b001/exe/sara": "sara",
	} {
		if got := CommandName(called); got != want {
			t.Errorf("called as %s: %s, want %s", called, got, want)
		}
	}
}

func TestReadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("file"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Console{Stdin: strings.NewReader("input")}
	for path, want := range map[string]string{file: "file", "-": "input"} {
		if got, err := c.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if _, err := c.ReadFile(file + "x"); err == nil {
		t.Error("no error for a file that does not exist")
	}
}
