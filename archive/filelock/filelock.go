// Package filelock locks files and folders against other processes that lock them too.
package filelock

import (
	"errors"
	"fmt"
	"os"
)

// A Folder is a folder that one process at a time writes into. Nothing is read or written outside.
type Folder struct {
	*os.Root
	lock *os.File
}

// OpenFolder opens a folder, makes it if it does not exist, and locks it. It is an error if another process has locked it. On a file system
// without locks it locks nothing. The caller closes the folder.
func OpenFolder(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	lock, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	f := &Folder{Root: root, lock: lock}
	if locked, err := Try(lock); err == nil && !locked {
		return nil, errors.Join(fmt.Errorf("another run of sara is writing into %s: wait for its end, or name another folder", path), f.Close())
	}
	return f, nil
}

// Close releases the lock.
func (f *Folder) Close() error { return errors.Join(f.lock.Close(), f.Root.Close()) }
