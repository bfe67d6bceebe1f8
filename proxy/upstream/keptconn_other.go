//go:build !unix

package upstream

import "net"

// hasInput cannot be told on this system.
func hasInput(net.Conn) bool { return false }
