package filelock

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestAFolderIsOpenOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "folder")
	for range 2 {
		first, err := OpenFolder(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFolder(path); err == nil || !strings.Contains(err.Error(), "another run of sara is writing into "+path) {
			t.Errorf("the second: %v", err)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}
}
