package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// protectMemory keeps the secrets in this process' memory and environment from its user's other processes, and off the disk. The
// kernel lets only a privileged user read the memory or the environment of a process that is not dumpable (/proc/PID/mem,
// /proc/PID/environ, ptrace), and writes no core dump of it, not even to a program that collects them, which the limit alone would
// not prevent.
func protectMemory() error {
	if err := errors.Join(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0), unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})); err != nil {
		return fmt.Errorf("protect the memory of this process: %w", err)
	}
	return nil
}
