//go:build !linux && !darwin

package proxy

import "net"

// boundUnsent is not implemented on this system: the kernel's own bound holds.
func boundUnsent(*net.TCPConn) {}
