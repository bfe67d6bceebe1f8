package sitemap

import (
	"strings"
	"testing"
)

func TestParseScope(t *testing.T) {
	f := func(site string, want Scope, ok bool) {
		t.Helper()
		got, err := ParseScope(site)
		if got != want || (err == nil) != ok {
			t.Errorf("%q: %+v, %v", site, got, err)
		}
	}
	f("sc-domain:Example.com", Scope{domain: "example.com"}, true)
	f("sc-domain:bücher.example", Scope{domain: "xn--bcher-kva.example"}, true)
	f("https://www.Example.com/shop/", Scope{prefix: "https://www.example.com/shop/", host: "www.example.com"}, true)
	f("http://example.com", Scope{prefix: "http://example.com/", host: "example.com"}, true)
	f("http://example.com:8080/", Scope{prefix: "http://example.com:8080/", host: "example.com", port: "8080"}, true)
	f("http://[::1]:80/", Scope{prefix: "http://[::1]/", host: "[::1]"}, true)
	f("https://[FE80:0::1]:8443", Scope{prefix: "https://[fe80::1]:8443/", host: "[fe80::1]", port: "8443"}, true)
	longest := strings.Repeat("z", 63) + strings.Repeat("."+strings.Repeat("9", 18), 10)
	f("sc-domain:"+longest, Scope{domain: longest}, true)
	for _, site := range []string{"", "example.com", "sc-domain:", "sc-domain:example.com/", "sc-domain:example.com:80", "sc-domain:a..b",
		"sc-domain:.example.com", "sc-domain:example.com.", "sc-domain:a b", "sc-domain:*.example.com", "ftp://example.com/", "https://",
		"https:///", "https://user@example.com/", "android-app://com.example/", "http://[fe80::1%25eth0]/",
		"http://[::1/", "http://::1]/", "http://[::1]x/", "http://[::1]80/", "http://[1.2.3.4]/", "http://[x]/", "http://[]/", "https:example.com",
		"sc-domain:" + strings.Repeat("a", 64) + ".example", "https://example.com/\x00", "https://xn--\u0080/", "https://\xff/",
		"sc-domain:" + longest[1:] + ".z", "sc-domain:z" + longest, "https://example.com/" + strings.Repeat("x", maxRaw)} {
		f(site, Scope{}, false)
	}
}

func TestCleanReturnsStoredForm(t *testing.T) {
	scope := scopeOf(t, "sc-domain:example.com")
	f := func(address, want string) {
		t.Helper()
		if got, ok := scope.Clean(address); got != want || !ok {
			t.Errorf("%q: %q %v, want %q", address, got, ok, want)
		}
	}
	f("https://example.com", "https://example.com/")
	f("HTTPS://WWW.Example.COM:443/A/b?C=D", "https://www.example.com/A/b?C=D")
	f("http://example.com:80/", "http://example.com/")
	f("http://example.com:443/", "http://example.com:443/")
	f("http://example.com:/", "http://example.com/")
	f("https://example.com:08443/", "https://example.com:8443/")
	f("https://example.com?q#f", "https://example.com/?q")
	f("https://example.com#f", "https://example.com/")
	f("https://example.com/#"+strings.Repeat("x", maxRaw-len("https://example.com/#")), "https://example.com/")
	f("https://example.com/#/route", "https://example.com/")
	f("https://example.com/?", "https://example.com/?")
	f("https://example.com//a/../b/./", "https://example.com//a/../b/./")
	f("https://example.com/%7e%C3%a4%zz%", "https://example.com/%7e%C3%a4%zz%")
	f("https://example.com/ä b?q=€ +\xff", "https://example.com/%C3%A4%20b?q=%E2%82%AC%20+%FF")
	f(" \t\nhttps://example.com/\r\n ", "https://example.com/")
	f("https://my_shop.example.com/", "https://my_shop.example.com/")
	f("https://bücher.example.com/", "https://xn--bcher-kva.example.com/")
	f("https://BÜCHER.example。com/", "https://xn--bcher-kva.example.com/")
	f("https://example.com/?u=http://user@other.test:1/", "https://example.com/?u=http://user@other.test:1/")
	f("https://example.com/"+strings.Repeat("x", 2028), "https://example.com/"+strings.Repeat("x", 2028))
}

func TestCleanRejectsForeignURLs(t *testing.T) {
	f := func(site, address string, want bool) {
		t.Helper()
		if got, ok := scopeOf(t, site).Clean(address); ok != want {
			t.Errorf("%s: %q: %q %v", site, address, got, ok)
		}
	}
	domain := "sc-domain:example.com"
	for _, address := range []string{"", "/", "//example.com/", "example.com", "https:example.com", "https:/example.com/", "https:///",
		"https://", "ftp://example.com/", "javascript:alert(1)", "https://user@example.com/", "https://@example.com/",
		"https://example.com@evil.test/", "https://evil.test/", "https://evilexample.com/", "https://example.com.evil.test/",
		"https://example.com./", "https://.example.com/", "https://a..example.com/", "https://example.com\\@evil.test/",
		"https://exa mple.com/", "https://example.com:x/", "https://example.com:0/", "https://example.com:65536/", "https://example.com:+1/",
		"https://example.com:1:2/", "https://[::1]/", "https://[::1/", "https://::1]/", "https://[fe80::1%25eth0]/", "https://[1.2.3.4]/",
		"https://[::1]x/", "https://\xff.example.com/", "https://example%2ecom/", "https://example.com/\x00", "https://example.com/a\nb",
		"https://example.com/\x7f", "https://example.com/" + strings.Repeat("x", 2029), "https://example.com/" + strings.Repeat("ä", 400),
		"https://example.com/#" + strings.Repeat("x", maxRaw), "https://" + strings.Repeat("a", 64) + ".example.com/",
		"https://" + strings.Repeat("a.", 130) + "example.com/"} {
		f(domain, address, false)
	}
	shop := "https://www.example.com/shop/"
	f(shop, "https://www.example.com/shop/", true)
	f(shop, "https://WWW.example.com:443/shop/a?b", true)
	f(shop, "https://www.example.com/shop", false)
	f(shop, "https://www.example.com/Shop/a", false)
	f(shop, "https://www.example.com/", false)
	f(shop, "http://www.example.com/shop/a", false)
	f(shop, "https://example.com/shop/a", false)
	f("https://www.example.com", "https://www.example.com", true)
	f("https://www.example.com", "https://www.example.com.evil.test/", false)
	f("https://www.example.com", "https://www.example.com:8443/", false)
	if _, ok := (Scope{}).Clean("https://example.com/"); ok {
		t.Error("the zero Scope spans something")
	}
}
