//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Try acquires the lock on a file or a directory unless another open file holds it. Closing the file releases the lock, and so does the end of
// the process. The error is errors.ErrUnsupported on a system without such locks.
func Try(file *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}
