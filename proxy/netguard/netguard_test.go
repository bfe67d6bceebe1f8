package netguard

import (
	"net"
	"strings"
	"testing"
	"time"
)

// An address is refused before the connection is made, in whatever form it is written.
func TestDialerRefuses(t *testing.T) {
	t.Parallel()
	guarded := NewDialer(Config{Timeout: time.Minute})
	for what, addresses := range map[string][]string{
		"this network":        {"0.0.0.0", "0.1.2.3", "::"},
		"loopback":            {"127.0.0.1", "127.255.255.254", "::1"},
		"private":             {"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fd12:3456::1"},
		"shared":              {"100.64.0.1", "100.127.255.255"},
		"link-local":          {"169.254.1.1", "fe80::1"},
		"metadata of a cloud": {"169.254.169.254", "fd00:ec2::254", "100.100.100.200"},
		"multicast":           {"224.0.0.1", "239.255.255.255", "ff02::1"},
		"broadcast, reserved": {"255.255.255.255", "240.0.0.1"},
		"documentation":       {"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1"},
		"benchmarks":          {"198.18.0.1"},
		"mapped":              {"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"},
		"6to4":                {"2002:7f00:1::1", "2002:a00:1::1"},
		"NAT64":               {"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1"},
		"Teredo":              {"2001:0:7f00:1::1"},
	} {
		for _, address := range addresses {
			if err := check(guarded, address); err == nil {
				t.Errorf("%s: connects to %s", what, address)
			}
		}
	}
	for _, address := range []string{"8.8.8.8", "172.32.0.1", "100.128.0.1", "142.250.74.170", "2a00:1450:4001:82a::200a"} {
		if err := check(guarded, address); err != nil {
			t.Errorf("refuses the public address %s: %v", address, err)
		}
	}
	if err := guarded.Control("udp4", "8.8.8.8:53", nil); err == nil {
		t.Error("connects over UDP")
	}
}

// AllowLoopback allows loopback addresses and nothing else.
func TestDialerAllowsLoopback(t *testing.T) {
	t.Parallel()
	local := NewDialer(Config{AllowLoopback: true})
	for address, allowed := range map[string]bool{"127.0.0.1": true, "::1": true, "10.0.0.1": false, "169.254.169.254": false, "fe80::1": false} {
		if err := check(local, address); (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A name is checked by the address that it has when the connection is made.
func TestDialerRefusesNames(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // nothing is accepted
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := NewDialer(Config{}).DialContext(t.Context(), "tcp", net.JoinHostPort("localhost", port)); err == nil {
		t.Errorf("connects to %s", conn.RemoteAddr())
	}
	conn, err := NewDialer(Config{AllowLoopback: true}).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close() // it was made
}

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.8.9.10": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.example": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "127.1": false, "[::1]": false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}

// check asks the dialer's guard about an address, without a connection.
func check(d *net.Dialer, address string) error {
	network := "tcp4"
	if strings.Contains(address, ":") {
		network = "tcp6"
	}
	return d.Control(network, net.JoinHostPort(address, "443"), nil)
}
