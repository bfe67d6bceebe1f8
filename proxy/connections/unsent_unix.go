//go:build linux || darwin

package connections

import (
	"net"

	"golang.org/x/sys/unix"
)

// boundUnsent bounds how much of an answer the kernel takes before the client's window has room for it. By default, its buffer for a client
// that has read quickly and stops grows to megabytes, which count against the memory limit of a container; a client without a key can
// get as much by sending requests for the reference without reading. What is sent but not acknowledged is bounded by the
// window, so that a client far away gets its answer as fast as before.
func boundUnsent(conn *net.TCPConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent) // or the kernel's own bound holds
	})
}
