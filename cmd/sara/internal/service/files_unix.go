//go:build unix

package service

import (
	"math"
	"syscall"
)

// OpenFiles returns how many files and connections the process may have open, 0 if there is no limit. Go has raised the soft limit to the
// hard one.
func OpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
