//go:build !linux && !darwin

package connections

import "net"

// boundUnsent is not implemented on this system: the kernel's own bound holds.
func boundUnsent(*net.TCPConn) {}
