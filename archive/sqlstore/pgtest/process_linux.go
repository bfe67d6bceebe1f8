package pgtest

import "syscall"

// processAttributes makes the server die with the thread that starts it, even if the tests are killed.
func processAttributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner, Pdeathsig: syscall.SIGQUIT}
}
