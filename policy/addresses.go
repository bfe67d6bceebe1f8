package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Addresses are the networks that a key can be used from; none: any address. A prefix that is not valid contains no address.
type Addresses []netip.Prefix

// maxAddresses bounds the networks of a key, and so the time to check an address.
const maxAddresses = 32

// ParseAddresses parses networks in CIDR notation, and single addresses. An IPv4 network may be written as IPv6 (IPv4-mapped).
// Bits beyond a prefix are an error, because such a network is larger than it looks.
func ParseAddresses(texts []string) (Addresses, error) {
	if len(texts) > maxAddresses {
		return nil, fmt.Errorf("%d networks are too many: a key has at most %d", len(texts), maxAddresses)
	}
	networks := make(Addresses, 0, len(texts))
	for _, text := range texts {
		network, err := parseNetwork(text)
		switch {
		case err != nil:
			return nil, err
		case network != network.Masked():
			return nil, fmt.Errorf("%s has bits beyond its prefix: use %s for the network, or %s for the address alone", text,
				network.Masked(), network.Addr())
		case slices.Contains(networks, network):
			return nil, fmt.Errorf("%s is given twice", network)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

func parseNetwork(text string) (netip.Prefix, error) {
	const ipv4Offset = 96 // of an IPv4 address in IPv6
	refused := fmt.Errorf("%q is not a network such as 192.0.2.0/24 or 2001:db8::/32, or an address", text)
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return network, refused
	case !network.Addr().Is4In6():
		return network, nil
	case network.Bits() < ipv4Offset:
		return network, refused // part of it is not IPv4
	}
	return netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-ipv4Offset), nil
}

// StoredAddresses is the inverse of String. What it cannot read contains no address: a key must not get wider by it.
func StoredAddresses(text string) (networks Addresses) {
	for one := range strings.FieldsSeq(text) {
		network, err := netip.ParsePrefix(one)
		if err != nil {
			network = netip.Prefix{}
		}
		networks = append(networks, network)
	}
	return networks
}

// String returns the networks in CIDR notation, separated by spaces; empty for any address.
func (a Addresses) String() string { return strings.Join(a.Names(), " ") }

// Names returns the networks in CIDR notation.
func (a Addresses) Names() []string {
	names := make([]string, len(a))
	for i, network := range a {
		names[i] = network.String()
	}
	return names
}

// Contain reports whether a request from a client's address is allowed. Where networks are set, text that is not an address is not.
func (a Addresses) Contain(client string) bool {
	if len(a) == 0 {
		return true
	}
	address, ok := parseClient(client)
	return ok && slices.ContainsFunc(a, func(network netip.Prefix) bool { return network.Contains(address) })
}

// parseClient parses the address of a client, as a connection or a trusted proxy has it: perhaps with a port or a zone, and IPv4
// perhaps in IPv6.
func parseClient(text string) (address netip.Addr, ok bool) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		withPort, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}, false
		}
		address = withPort.Addr()
	}
	return address.Unmap().WithZone(""), true
}

// Network returns what clients are counted by: an IPv4 address, or the /64 of an IPv6 address, which one client has as a whole.
// A text that is not an address stands for itself.
func Network(address string) string {
	a, ok := parseClient(address)
	if !ok || a.Is4() && !strings.Contains(address, ":") { // the usual form of it, which needs no copy
		return address
	}
	if a.Is6() {
		half, _ := a.Prefix(64) // fits every IPv6 address
		a = half.Addr()
	}
	return a.String()
}
