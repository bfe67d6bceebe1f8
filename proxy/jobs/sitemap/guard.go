package sitemap

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"code.dny.dev/ssrf"
)

const (
	maxHeader   = 64 << 10 // bytes of an answer's header
	connectTime = 10 * time.Second
)

// newTransport returns a transport that connects to public addresses only, and to loopback ones if that is allowed.
//
// The guard sees each address after the name was resolved and right before the connection is made. It refuses whatever
// IANA does not list as global: private, shared, loopback and link-local addresses (the metadata services of clouds among
// them), multicast, documentation, and the forms in which IPv6 carries IPv4 (mapped, 6to4, Teredo, NAT64). Which port is
// asked is for Scope to say, for a property may have its own.
func newTransport(resolver *net.Resolver, allowLoopback bool) *http.Transport {
	options := []ssrf.Option{ssrf.WithAnyPort()}
	if allowLoopback {
		options = append(options,
			ssrf.WithAllowedV4Prefixes(netip.MustParsePrefix("127.0.0.0/8")),
			ssrf.WithAllowedV6Prefixes(netip.MustParsePrefix("::1/128")))
	}
	dialer := &net.Dialer{Timeout: connectTime, Resolver: resolver, Control: ssrf.New(options...).Safe}
	return &http.Transport{
		Proxy:       nil, // a proxy would resolve and connect behind the guard's back
		DialContext: dialer.DialContext,
		// A connection ends with its file: nothing is left open at a stranger's server between two days.
		DisableKeepAlives:      true,
		DisableCompression:     true, // decoding is bounded, see decode
		MaxResponseHeaderBytes: maxHeader,
	}
}
