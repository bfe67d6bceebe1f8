package pgtest

import "syscall"

// processAttributes makes the server die with the thread that starts it, even if the tests are killed.
func processAttributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner, Pdeathsig: syscall.SIGQUIT}
}

// folderOfServers returns the parent of a server's files; empty for that of temporary files. A test's database is a hundred files, and
// creating them on disk takes a quarter of the tests' time. The folder in memory must have enough space; containers often have little.
func folderOfServers() string {
	const memory = "/dev/shm"
	var free syscall.Statfs_t
	if err := syscall.Statfs(memory, &free); err != nil || free.Bavail*uint64(free.Bsize) < roomOfServers {
		return ""
	}
	return memory
}

// roomOfServers is several times the size of a server's files, including the log.
const roomOfServers = 2 << 30
