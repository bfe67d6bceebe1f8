package sitemap

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"code.dny.dev/ssrf"
)

const (
	maxHeader   = 64 << 10 // bytes of a response's header
	connectTime = 10 * time.Second
)

// newTransport returns a transport that connects only to public addresses, and to loopback ones if that is allowed.
//
// The guard checks each address after the name was resolved and right before the connection is made. It refuses all that
// IANA does not list as global: private, shared, loopback and link-local addresses (such as the metadata services of clouds),
// multicast, documentation, and IPv4 embedded in IPv6 (mapped, 6to4, Teredo, NAT64). Scope checks the port, because a property
// may have its own.
func newTransport(resolver *net.Resolver, allowLoopback bool) *http.Transport {
	options := []ssrf.Option{ssrf.WithAnyPort()}
	if allowLoopback {
		options = append(options,
			ssrf.WithAllowedV4Prefixes(netip.MustParsePrefix("127.0.0.0/8")),
			ssrf.WithAllowedV6Prefixes(netip.MustParsePrefix("::1/128")))
	}
	dialer := &net.Dialer{Timeout: connectTime, Resolver: resolver, Control: ssrf.New(options...).Safe}
	return &http.Transport{
		Proxy:       nil, // a proxy would bypass the guard
		DialContext: dialer.DialContext,
		// Nothing is fetched from the same server soon again, so a connection ends with its file.
		DisableKeepAlives:      true,
		DisableCompression:     true, // decode decompresses, within bounds
		MaxResponseHeaderBytes: maxHeader,
	}
}
