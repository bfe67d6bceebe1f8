//go:build !unix

package upstream

import "net"

// hasInput is not implemented on this system: it reports no input.
func hasInput(net.Conn) bool { return false }
