package sqlstore

import (
	"errors"
	"strings"
	"testing"
)

func TestParseSiteAcceptsUpstreamProperties(t *testing.T) {
	for in, want := range map[string][3]string{
		"sc-domain:Example.com":                      {"sc-domain:example.com", "example.com", "domain"},
		"sc-domain:xn--bcher-kva.example":            {"sc-domain:xn--bcher-kva.example", "xn--bcher-kva.example", "domain"},
		"https://example.com/":                       {"https://example.com/", "example.com", "url_prefix"},
		"HTTP://WWW.Example.com:8080/Blog/%C3%A9/":   {"http://www.example.com:8080/Blog/%C3%A9/", "www.example.com", "url_prefix"},
		"https://example.com/a//b/../é/":             {"https://example.com/a//b/../é/", "example.com", "url_prefix"},
		"http://localhost:1/":                        {"http://localhost:1/", "localhost", "url_prefix"},
		"https://my_shop.example.com/a:b@c/":         {"https://my_shop.example.com/a:b@c/", "my_shop.example.com", "url_prefix"},
		"https://" + strings.Repeat("a", 63) + ".x/": {"https://" + strings.Repeat("a", 63) + ".x/", strings.Repeat("a", 63) + ".x", "url_prefix"},
	} {
		site, host, kind, err := ParseSite(in)
		if got := [3]string{site, host, kind}; err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", in, got, err, want)
		}
	}
}

func TestParseSiteErrorsNameTheProblem(t *testing.T) {
	for in, reason := range map[string]string{
		"":                                               "is not an upstream property",
		"example.com":                                    "write sc-domain:example.com or https://www.example.com/",
		"SC-DOMAIN:example.com":                          "is not an upstream property",
		"ftp://example.com/":                             "is not an upstream property",
		"https:example.com/":                             "is not an upstream property",
		"https://%zz/":                                   "is not an upstream property",
		"sc-domain:":                                     "has no valid domain",
		"sc-domain:localhost":                            "has no valid domain",
		"sc-domain:example.com/":                         "has no valid domain",
		"sc-domain:exa mple.com":                         "has no valid domain",
		"sc-domain:bücher.example":                       "xn-- form",
		"sc-domain:-a.example":                           "has no valid domain",
		"sc-domain:a..example":                           "has no valid domain",
		"https://example.com":                            "does not end with a slash",
		"https://example.com/blog":                       "does not end with a slash",
		"https://example.com/?q=/":                       "more than a scheme, a host and a path",
		"https://example.com/#/":                         "more than a scheme, a host and a path",
		"https://me@example.com/":                        "more than a scheme, a host and a path",
		"https://example.com/a b/":                       "such as %20 for a space",
		"https://example.com/\xff/":                      "percent-encode",
		"https:///":                                      "has no valid host",
		"https://exam!ple.com/":                          "has no valid host",
		"https://example.com:/":                          "has no valid host",
		"https://example.com:0/":                         "has no valid host",
		"https://example.com:70000/":                     "has no valid host",
		"https://[::1]/":                                 "has no valid host",
		"https://" + strings.Repeat("a", 64) + ".x/":     "has no valid host",
		"https://a.example/" + strings.Repeat("a", 2000): "at most 2000",
	} {
		_, _, _, err := ParseSite(in)
		if bad := (*InputError)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: got error %v, want an InputError with %q", in, err, reason)
		}
	}
}

func FuzzParseSite(f *testing.F) {
	for _, seed := range []string{"sc-domain:example.com", "https://www.example.com/blog/", "http://[::1]:80/", "https://a/%2F/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		site, host, kind, err := ParseSite(in)
		if err != nil {
			return
		}
		again, sameHost, sameKind, err := ParseSite(site)
		if err != nil || again != site || sameHost != host || sameKind != kind {
			t.Errorf("%q became %q, which reads as %q %q %q %v", in, site, again, sameHost, sameKind, err)
		}
		if !strings.EqualFold(site, in) || !strings.Contains(site, host) {
			t.Errorf("%q became %q of host %q", in, site, host)
		}
		if err := checkSlug(deriveSlug(site)); err != nil {
			t.Errorf("slug of %q: %v", site, err)
		}
		if err := checkText("property name", siteName(site, host, kind), maxLongName); err != nil {
			t.Errorf("name of %q: %v", site, err)
		}
	})
}
