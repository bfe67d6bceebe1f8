//go:build unix

package bulkexport

import (
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// The folder has one import at a time, also at the moment at which one ends and deletes it: another would delete the runs of the next one, or
// add its own to them.
func TestFolderIsOfOneImportAtATime(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/sara-import-x"
	var using atomic.Int32
	var working sync.WaitGroup
	for range 4 {
		working.Go(func() {
			for range 500 {
				f, err := openFolder(path)
				if err != nil && strings.Contains(err.Error(), "another import of this property is running") {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := using.Add(1); n > 1 {
					t.Errorf("%d imports use the folder", n)
				}
				name := f.file("000000.run")
				err = os.WriteFile(name, nil, 0o600)
				if err == nil {
					_, err = os.Stat(name)
				}
				using.Add(-1)
				if err := errors.Join(err, f.remove(), f.close()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	working.Wait()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}
