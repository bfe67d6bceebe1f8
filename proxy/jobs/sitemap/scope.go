package sitemap

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// Scope is what a property spans. The zero Scope spans nothing.
type Scope struct {
	domain string // a domain property: the domain; else ""
	prefix string // a URL-prefix property: the prefix in the stored form of addresses
	host   string // the host of the prefix
	port   string // and its port, "" being the scheme's own
}

// ParseScope returns the scope of a property as Search Console names it: "sc-domain:example.com" spans the domain and its
// subdomains, on http and https; "https://www.example.com/shop/" spans the pages whose addresses begin so, and its
// sitemaps may be anywhere on that host.
func ParseScope(site string) (Scope, error) {
	if domain, ok := strings.CutPrefix(site, "sc-domain:"); ok {
		host, ok := asciiHost(domain)
		if !ok {
			return Scope{}, fmt.Errorf("property %q does not name a domain", site)
		}
		return Scope{domain: host}, nil
	}
	a, err := parseAddress(site)
	if err != nil {
		return Scope{}, fmt.Errorf("property %q: %w", site, err)
	}
	return Scope{prefix: a.String(), host: a.host, port: a.port}, nil
}

// Clean returns the stored form of a page's address, and whether the page belongs to the property. The stored form is
// absolute, in printable ASCII, at most 2,048 bytes: scheme and host are in lower case, the host in its ASCII form; the
// scheme's own port and the fragment are dropped; an empty path is a slash; spaces and what is not ASCII are
// percent-encoded. All else stays byte by byte, as Search Console compares it: the same page under another escape,
// another case or another scheme is another page. An address with user information, a relative one, and one with control
// characters belongs to no property.
func (s Scope) Clean(address string) (string, bool) {
	a, err := parseAddress(address)
	if err != nil {
		return "", false
	}
	cleaned := a.String()
	if len(cleaned) > maxAddress {
		return "", false
	}
	if s.domain != "" {
		return cleaned, s.spansHost(a.host)
	}
	return cleaned, s.prefix != "" && strings.HasPrefix(cleaned, s.prefix)
}

func (s Scope) spansHost(host string) bool {
	if s.domain == "" {
		return host == s.host && host != ""
	}
	return host == s.domain || strings.HasSuffix(host, "."+s.domain)
}

// mayAsk returns why a sitemap's address must not be asked, or nil. It judges the parsed URL that is going to be asked,
// not the text it came from, so that there are no two readings of one text.
func (s Scope) mayAsk(u *url.URL, allowLoopback bool) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return errScheme
	case u.User != nil:
		return errUser
	case u.Opaque != "" || !isASCII(u.Host):
		return errInvalid
	}
	host := strings.ToLower(u.Hostname())
	if allowLoopback && isLoopback(host) {
		return nil
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if !s.spansHost(host) {
		return errHost
	}
	usual := u.Port() == "" || u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443"
	if !usual && (s.domain != "" || u.Port() != s.port) {
		return errPort
	}
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
