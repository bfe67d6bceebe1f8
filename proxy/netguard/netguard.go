// Package netguard connects to public addresses only, for URLs that come from outside, and recognizes names of this machine.
//
// The guard checks each address after the name was resolved and right before the connection is made. It refuses all that
// IANA does not list as global: private, shared, loopback and link-local addresses (such as the metadata services of clouds),
// multicast, documentation, and IPv4 embedded in IPv6 (mapped, 6to4, Teredo, NAT64). It checks no port. A proxy would bypass it.
package netguard

import (
	"net"
	"net/netip"
	"strings"
	"time"

	"code.dny.dev/ssrf"
)

// Config configures a dialer.
type Config struct {
	Resolver      *net.Resolver // nil: the system's
	AllowLoopback bool          // for tests: connect to this machine too
	Timeout       time.Duration // of a connection; 0: none
}

// NewDialer returns a dialer that connects only to public addresses, and to loopback ones if that is allowed.
func NewDialer(c Config) *net.Dialer {
	options := []ssrf.Option{ssrf.WithAnyPort()}
	if c.AllowLoopback {
		options = append(options,
			ssrf.WithAllowedV4Prefixes(netip.MustParsePrefix("127.0.0.0/8")),
			ssrf.WithAllowedV6Prefixes(netip.MustParsePrefix("::1/128")))
	}
	return &net.Dialer{Timeout: c.Timeout, Resolver: c.Resolver, Control: ssrf.New(options...).Safe}
}

// IsLoopback reports whether a host, as url.URL.Hostname returns it, is localhost or a loopback address. It resolves no name.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}
