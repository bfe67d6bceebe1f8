//go:build unix

package bulkexport

import (
	"os"
	"syscall"
)

// tryLock locks a file until it is closed, or fails if another process has locked it.
func tryLock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
