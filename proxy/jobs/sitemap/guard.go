package sitemap

import (
	"net"
	"net/http"
	"time"

	"sara/proxy/netguard"
)

const (
	maxHeader   = 64 << 10 // bytes of a response's header
	connectTime = 10 * time.Second
)

// newTransport returns a transport that connects only to public addresses, and to loopback ones if that is allowed. Scope checks
// the port, because a property may have its own.
func newTransport(resolver *net.Resolver, allowLoopback bool) *http.Transport {
	dialer := netguard.NewDialer(netguard.Config{Resolver: resolver, AllowLoopback: allowLoopback, Timeout: connectTime})
	return &http.Transport{
		Proxy:       nil, // a proxy would bypass the guard
		DialContext: dialer.DialContext,
		// A server is not contacted again soon, so its connection is closed after the file.
		DisableKeepAlives:      true,
		DisableCompression:     true, // decode decompresses, within bounds
		MaxResponseHeaderBytes: maxHeader,
	}
}
