package policy

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseAddresses(t *testing.T) {
	f := func(want string, texts ...string) {
		t.Helper()
		a, err := ParseAddresses(texts)
		if err != nil || a.String() != want || StoredAddresses(want).String() != want {
			t.Errorf("%q is %q, %v", texts, a, err)
		}
	}
	f("")
	f("192.0.2.0/24 2001:db8::/32", "192.0.2.0/24", "2001:db8::/32")
	f("192.0.2.7/32 2001:db8::1/128", "192.0.2.7", "2001:0db8:0::1")
	f("192.0.2.0/24 192.0.2.7/32 0.0.0.0/0", "::ffff:192.0.2.0/120", "::ffff:192.0.2.7", "::ffff:0.0.0.0/96")
	f("0.0.0.0/0 ::/0", "0.0.0.0/0", "::/0")
}

func TestParseAddressesRefuses(t *testing.T) {
	const noNetwork = " is not a network such as 192.0.2.0/24 or 2001:db8::/32, or an address"
	f := func(want string, texts ...string) {
		t.Helper()
		if a, err := ParseAddresses(texts); err == nil || err.Error() != want {
			t.Errorf("%q is %q, %v; want the error %s", texts, a, err, want)
		}
	}
	for _, text := range []string{"", "x", "192.0.2.0/33", "192.0.2/24", "192.0.2.0/", "192.0.2.0/-1", "2001:db8::/129", "fe80::1%eth0",
		"fe80::%eth0/64", "::ffff:0:0/95", "192.0.2.7:80", " 192.0.2.7", "any"} {
		f(fmt.Sprintf("%q", text)+noNetwork, text)
	}
	f("192.0.2.7/24 has bits beyond its prefix: use 192.0.2.0/24 for the network, or 192.0.2.7 for the address alone", "192.0.2.7/24")
	f("192.0.2.7/32 is given twice", "192.0.2.7", "::ffff:192.0.2.7")
	f("33 networks are too many: a key has at most 32", strings.Fields(strings.Repeat("192.0.2.7 ", 33))...)
}

func TestAddressesContain(t *testing.T) {
	f := func(networks, client string, want bool) {
		t.Helper()
		if got := StoredAddresses(networks).Contain(client); got != want {
			t.Errorf("%q contains %q: %t", networks, client, got)
		}
	}
	f("", "192.0.2.7", true)
	f("", "no address", true)
	const both = "192.0.2.0/24 2001:db8:1::/48"
	for client, want := range map[string]bool{
		"192.0.2.0": true, "192.0.2.255": true, "192.0.3.0": false, "192.0.1.255": false,
		"::ffff:192.0.2.7": true, "::ffff:c000:207": true, "::ffff:192.0.3.7": false, "::192.0.2.7": false, "64:ff9b::192.0.2.7": false,
		"192.0.2.7:8080": true, "[::ffff:192.0.2.7]:80": true, "[2001:db8:1::7]:80": true, "[2001:db8:2::7]:80": false,
		"2001:db8:1::": true, "2001:db8:1:ffff::1%eth0": true, "2001:db8:2::": false,
		"": false, "unknown": false, "192.0.2": false, "192.0.2.7, 10.0.0.1": false,
	} {
		f(both, client, want)
	}
	f("damaged", "192.0.2.7", false)
	f("damaged", "", false)
	f("192.0.2.0/24 damaged", "192.0.2.7", true)
}
