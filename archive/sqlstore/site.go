package sqlstore

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"sara/policy"
)

const domainPrefix = "sc-domain:"

// ParseSite parses an upstream property string: sc-domain:example.com, or a URL prefix that ends with a slash, such as
// https://www.example.com/blog/. It returns the string with its host in lower case, the host without a port, and the property's
// type. Errors are InputErrors that show a valid example.
func ParseSite(s string) (site, host, kind string, err error) {
	bad := func(reason string) (string, string, string, error) {
		return "", "", "", &InputError{"property", fmt.Sprintf("%q %s", s, reason)}
	}
	if len(s) > maxSiteLength {
		return "", "", "", &InputError{"property", fmt.Sprintf("it has %d bytes: at most %d are allowed", len(s), maxSiteLength)}
	}
	if domain, ok := strings.CutPrefix(s, domainPrefix); ok {
		host = strings.ToLower(domain)
		if !isHostName(host) || !strings.Contains(host, ".") {
			return bad("has no valid domain: write sc-domain:example.com, in xn-- form if it is international")
		}
		return domainPrefix + host, host, policy.DomainProperty, nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "":
		return bad("is not an upstream property: write sc-domain:example.com or https://www.example.com/")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.ContainsRune(s, '#'):
		return bad("has more than a scheme, a host and a path: write https://www.example.com/")
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return bad("contains a space or a control character: percent-encode it, such as %20 for a space")
	case !isHostName(strings.ToLower(u.Hostname())) || !isPort(u):
		return bad("has no valid host: write https://www.example.com/, in xn-- form if it is international")
	case !strings.HasSuffix(u.Path, "/"):
		return bad("does not end with a slash: write https://www.example.com/ or https://www.example.com/blog/")
	}
	// The path is not normalized, because the upstream compares it byte by byte.
	_, rest, _ := strings.Cut(s, "://")
	path := rest[strings.IndexByte(rest, '/'):]
	return u.Scheme + "://" + strings.ToLower(u.Host) + path, strings.ToLower(u.Hostname()), policy.URLPrefixProperty, nil
}

func isPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.Atoi(u.Port())
	return err == nil && n > 0 && n < 1<<16
}

// isHostName reports whether s, in lower case, consists of valid DNS labels.
func isHostName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// siteName is the default name of a property: its domain or its URL.
func siteName(site, host, kind string) string {
	if kind == policy.DomainProperty {
		return host
	}
	return strings.ToValidUTF8(site[:min(len(site), maxLongName)], "")
}

const maxSlug = 80

// checkSlug refuses a slug with anything but lower-case letters, digits and dashes, or that could be mistaken for an ID.
func checkSlug(slug string) error {
	if slug == "" || len(slug) > maxSlug || strings.Trim(slug, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return &InputError{"slug", fmt.Sprintf("%q must be 1 to %d lower-case letters, digits and dashes", slug, maxSlug)}
	}
	if uuid.Validate(slug) == nil {
		return &InputError{"slug", fmt.Sprintf("%q looks like an id: choose another", slug)}
	}
	return nil
}

// deriveSlug turns a site into a slug: www-example-com-blog for https://www.example.com/blog/.
func deriveSlug(site string) string {
	_, rest, _ := strings.Cut(site, ":")
	var slug strings.Builder
	for _, r := range strings.ToLower(rest) {
		switch {
		case slug.Len() == maxSlug:
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			slug.WriteRune(r)
		case slug.Len() > 0 && !strings.HasSuffix(slug.String(), "-"):
			slug.WriteByte('-')
		}
	}
	derived := strings.TrimSuffix(slug.String(), "-")
	if checkSlug(derived) != nil {
		return "site-" + derived[:min(len(derived), maxSlug-len("site-"))]
	}
	return derived
}
