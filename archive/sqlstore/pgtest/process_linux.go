package pgtest

import "syscall"

// processAttributes makes the server die with the thread that starts it, even if the tests are killed.
func processAttributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner, Pdeathsig: syscall.SIGQUIT}
}

// folderOfServers returns the parent of a server's files, empty for that of temporary files. A test's database is a hundred files, and
// to make them on a disk takes a quarter of the time of its tests. The one in memory needs room: that of a container often has little.
func folderOfServers() string {
	const memory = "/dev/shm"
	var free syscall.Statfs_t
	if err := syscall.Statfs(memory, &free); err != nil || free.Bavail*uint64(free.Bsize) < roomOfServers {
		return ""
	}
	return memory
}

// roomOfServers is several times what the files of a server take, log included.
const roomOfServers = 2 << 30
