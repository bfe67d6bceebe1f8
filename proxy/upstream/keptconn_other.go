//go:build !unix

package upstream

import "net"

// hasInput cannot tell on this system.
func hasInput(net.Conn) bool { return false }
