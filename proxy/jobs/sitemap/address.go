package sitemap

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

const (
	maxAddress = 2048 // bytes of a stored URL, the limit of the sitemap protocol and of Search Console
	maxRaw     = 4096 // bytes of a URL as listed, before its fragment is dropped
)

// problem is why a file is not read, or only in part: a text for people, in lower case, that calls the file "it". The API shows
// it to customers.
type problem string

func (p problem) Error() string { return string(p) }

// Why a URL is not fetched.
const (
	errInvalid = problem("its address is not a valid URL")
	errScheme  = problem("its address is neither http nor https")
	errUser    = problem("its address carries a user name")
	errHost    = problem("its host is not one of the property")
	errPort    = problem("its port is neither the usual one nor the property's")
)

// address is an absolute http or https URL in its parts.
type address struct {
	scheme string // http or https
	host   string // in lower case and ASCII; IPv6 in brackets
	port   string // "" is the default of the scheme
	rest   string // path and query, from the first slash on, in printable ASCII
}

func (a address) String() string {
	if a.port == "" {
		return a.scheme + "://" + a.host + a.rest
	}
	return a.scheme + "://" + a.host + ":" + a.port + a.rest
}

// parseAddress parses a URL and normalizes it to its stored form. It does not use url.Parse, because that rewrites percent-escapes,
// and Search Console compares them byte by byte.
func parseAddress(raw string) (address, error) {
	raw = strings.Trim(raw, " \t\r\n")
	if len(raw) > maxRaw {
		return address{}, errInvalid
	}
	scheme, rest, ok := strings.Cut(raw, ":")
	if !ok {
		return address{}, errInvalid
	}
	a := address{scheme: strings.ToLower(scheme)}
	if a.scheme != "http" && a.scheme != "https" {
		return address{}, errScheme
	}
	if rest, ok = strings.CutPrefix(rest, "//"); !ok {
		return address{}, errInvalid
	}
	rest, _, _ = strings.Cut(rest, "#")
	authority, rest := rest, ""
	if i := strings.IndexAny(authority, "/?"); i >= 0 {
		authority, rest = authority[:i], authority[i:]
	}
	if strings.Contains(authority, "@") {
		return address{}, errUser
	}
	if a.host, a.port, ok = splitAuthority(a.scheme, authority); !ok {
		return address{}, errInvalid
	}
	if !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	if a.rest, ok = escape(rest); !ok {
		return address{}, errInvalid
	}
	return a, nil
}

// splitAuthority splits the host from the port, which is "" if it is the default of the scheme.
func splitAuthority(scheme, authority string) (host, port string, ok bool) {
	if literal, rest, found := strings.Cut(authority, "]"); found {
		ip, err := netip.ParseAddr(strings.TrimPrefix(literal, "["))
		if err != nil || !ip.Is6() || ip.Zone() != "" || !strings.HasPrefix(literal, "[") {
			return "", "", false
		}
		host, port = "["+ip.String()+"]", strings.TrimPrefix(rest, ":")
		if rest != "" && rest[0] != ':' {
			return "", "", false
		}
	} else {
		host, port, _ = strings.Cut(authority, ":")
		if host, ok = asciiHost(host); !ok {
			return "", "", false
		}
	}
	if port == "" {
		return host, "", true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", "", false
	}
	if scheme == "http" && n == 80 || scheme == "https" && n == 443 {
		return host, "", true
	}
	return host, strconv.FormatUint(n, 10), true
}

// asciiHost normalizes a host name to lower case and ASCII. ASCII names need not be strictly valid, because hosts with underscores
// exist.
func asciiHost(host string) (string, bool) {
	if !isASCII(host) {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil || !utf8.ValidString(host) {
			return "", false
		}
		host = ascii
	}
	host = strings.ToLower(host)
	if host == "" || len(host) > 253 {
		return "", false
	}
	label := 0
	for i := range len(host) {
		switch c := host[i]; {
		case c == '.' && label > 0:
			label = 0
			continue
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
			label++
		default:
			return "", false
		}
		if label > 63 {
			return "", false
		}
	}
	return host, label > 0
}

// escape percent-encodes spaces and non-ASCII bytes and keeps the rest, including escapes. It rejects control characters.
func escape(rest string) (string, bool) {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(rest))
	for i := range len(rest) {
		switch c := rest[i]; {
		case c < ' ' || c == 0x7f:
			return "", false
		case c == ' ' || c > 0x7f:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] > 0x7f {
			return false
		}
	}
	return true
}
