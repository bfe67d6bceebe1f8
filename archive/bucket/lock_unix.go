//go:build unix

package bucket

import (
	"errors"
	"os"
	"syscall"
)

// tryLock acquires the lock on a directory unless another open file holds it. Closing the file releases the lock, and so does
// the end of the process.
func tryLock(dir *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
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
