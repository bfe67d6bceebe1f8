package sitemap

import (
	"fmt"
	"net/url"
	"strings"

	"sara/proxy/netguard"
)

// Scope is the set of URLs that a property covers. The zero Scope is empty.
type Scope struct {
	domain string // a domain property: the domain; else ""
	prefix string // a URL-prefix property: the prefix in the stored form
	host   string // the host of the prefix
	port   string // its port; "" is the default of the scheme
}

// ParseScope returns the scope of a property as Search Console names it: "sc-domain:example.com" covers the domain and its
// subdomains, on http and https; "https://www.example.com/shop/" covers the URLs with that prefix, and its sitemaps may be
// anywhere on the host.
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

// Clean returns the stored form of a URL, and whether it belongs to the property. The stored form is absolute, in printable
// ASCII, at most 2,048 bytes: scheme and host are in lower case, the host in its ASCII form; the default port and the fragment
// are dropped; an empty path becomes a slash; spaces and non-ASCII bytes are percent-encoded. The rest is kept byte by byte,
// because Search Console compares bytes: the same page with a different escape, case or scheme is a different URL. A URL that is
// relative, or has user information or control characters, belongs to no property.
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
		return cleaned, s.coversHost(a.host)
	}
	return cleaned, s.prefix != "" && strings.HasPrefix(cleaned, s.prefix)
}

func (s Scope) coversHost(host string) bool {
	if s.domain == "" {
		return host == s.host && host != ""
	}
	return host == s.domain || strings.HasSuffix(host, "."+s.domain)
}

// allows returns why a sitemap must not be fetched; nil if it may be. It checks the parsed URL that will be fetched, not the text
// it was parsed from, because two parsers might disagree about the text.
func (s Scope) allows(u *url.URL, allowLoopback bool) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return errScheme
	case u.User != nil:
		return errUser
	case u.Opaque != "" || !isASCII(u.Host):
		return errInvalid
	}
	host := strings.ToLower(u.Hostname())
	if allowLoopback && netguard.IsLoopback(host) {
		return nil
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if !s.coversHost(host) {
		return errHost
	}
	isDefault := u.Port() == "" || u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443"
	if !isDefault && (s.domain != "" || u.Port() != s.port) {
		return errPort
	}
	return nil
}
