//go:build !unix

package upstream

import "net"

// hasInput cannot find out on this system.
func hasInput(net.Conn) bool { return false }
