//go:build unix

package upstream

import (
	"errors"
	"net"
	"syscall"
)

// hasInput reports whether a read from the connection would not block: it has bytes, its end, or an error.
func hasInput(conn net.Conn) bool {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	controlErr := raw.Control(func(fd uintptr) {
		var next [1]byte
		_, _, err = syscall.Recvfrom(int(fd), next[:], syscall.MSG_PEEK) // Go's sockets do not block
	})
	return controlErr != nil || !errors.Is(err, syscall.EAGAIN)
}
