package settings

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"
)

// HostPort is an address to listen on.
type HostPort struct {
	written
	Host string
	Port int
}

func (a *HostPort) parse(tag *kong.Tag) error {
	host, port, err := net.SplitHostPort(a.text)
	if err != nil || strings.ContainsAny(host, " /@") {
		return fmt.Errorf("%q is not of the form HOST:PORT, such as %s", mask(a.text), example(tag))
	}
	number, err := strconv.Atoi(port)
	if err != nil || number < 0 || number > 65535 {
		return fmt.Errorf("the port of %q is not a number of 0 to 65535; write it like %s", a.text, example(tag))
	}
	a.Host, a.Port = host, number
	return nil
}

// CheckPorts reports an admin listener on the same port as the public one.
func CheckPorts(public, admin HostPort) error {
	if public.Port == 0 || public.Port != admin.Port || !overlap(public.Host, admin.Host) {
		return nil
	}
	return Errorf("SARA_ADMIN_LISTEN", "%q has the same port as SARA_LISTEN, %q; choose another, such as %s",
		admin, public, net.JoinHostPort(admin.Host, strconv.Itoa(public.Port%65535+1)))
}

// overlap reports whether listeners on the two hosts cannot have the same port.
func overlap(a, b string) bool {
	for _, host := range []*string{&a, &b} {
		if strings.EqualFold(*host, "localhost") {
			*host = "127.0.0.1"
		}
		if ip, err := netip.ParseAddr(*host); *host == "" || err == nil && ip.IsUnspecified() {
			return true // Go's wildcard listener for IPv6 takes IPv4 too
		}
	}
	return strings.EqualFold(a, b)
}

// URL returns the URL at which this machine reaches a listener on the address.
func (a HostPort) URL() string { return LocalURL(a.text) }

// LocalURL returns the URL at which this machine reaches a listener on the address, such as 0.0.0.0:8080.
func LocalURL(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "http://" + address
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// URL is an absolute http or https URL without credentials, query and fragment.
type URL struct{ written }

func (u *URL) parse(tag *kong.Tag) error {
	_, err := ParseURL(u.text, example(tag))
	return err
}

// BaseURL is a URL to which paths are appended.
type BaseURL struct{ written }

func (u *BaseURL) parse(tag *kong.Tag) error {
	parsed, err := ParseURL(u.text, example(tag))
	switch {
	case err != nil:
		return err
	case strings.HasSuffix(u.text, "/"):
		return fmt.Errorf("%q ends with a slash, so paths of the API cannot be appended; leave the slash out", u.text)
	case strings.ContainsFunc(parsed.Host, func(c rune) bool { return c > unicode.MaxASCII }): // /mcp compares it with the header Host
		return fmt.Errorf("the host of %q is not in ASCII; write it as clients send it, in xn-- form", u.text)
	}
	return nil
}

// Or returns the URL, or else that of a listener.
func (u BaseURL) Or(listener string) string {
	if u.isSet() {
		return u.text
	}
	return listener
}

// ParseURL parses an absolute http or https URL without credentials, query and fragment. Its error names an example of one.
func ParseURL(text, example string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q is not an absolute http or https URL, such as %s", mask(text), example)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%q has more than a scheme, a host and a path; write it like %s", mask(text), example)
	}
	return u, nil
}
