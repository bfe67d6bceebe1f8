//go:build unix && !linux

package pgtest

import "syscall"

func processAttributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner}
}

// folderOfServers returns the parent of a server's files; empty for that of temporary files.
func folderOfServers() string { return "" }
