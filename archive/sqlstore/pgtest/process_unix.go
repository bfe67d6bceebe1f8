//go:build unix && !linux

package pgtest

import "syscall"

func processAttributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner}
}
