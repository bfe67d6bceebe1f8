//go:build unix

package sqlstore

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// FileInUse reports whether another process has a store's SQLite file open, however long it has been idle. It changes nothing: in WAL
// mode, each connection holds a lock on some bytes of the file until it is closed (SHARED_FIRST of SQLite's file format). This process must
// not have the file open: closing it here would release its locks.
func FileInUse(path string) (inUse bool, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, fmt.Errorf("open database file: %w", err)
	}
	const first, size = 0x40000000 + 2, 510
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: first, Len: size}
	err = syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, &lock)
	if err = errors.Join(err, file.Close()); err != nil {
		return false, fmt.Errorf("look for locks on %s: %w", path, err)
	}
	return lock.Type != syscall.F_UNLCK, nil
}
