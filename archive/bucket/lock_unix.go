//go:build unix

package bucket

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock on a directory unless another open file has it. The lock goes with the open file, and so with a
// process that dies.
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
