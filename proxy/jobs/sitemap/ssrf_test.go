package sitemap

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// Names that resolve to non-public addresses get no connection; the other sitemaps are read.
func TestNamesOfPrivateAddressesAreRejected(t *testing.T) {
	base := web{"/good": text(goodPage)}.start(t)
	for name, address := range map[string]string{
		"this host":               "0.0.0.0",
		"private 10":              "10.1.2.3",
		"private 172.16":          "172.16.0.1",
		"private 192.168":         "192.168.0.1",
		"shared (CGNAT)":          "100.64.0.1",
		"link-local metadata":     "169.254.169.254",
		"metadata of a cloud":     "100.100.100.200",
		"benchmarking":            "198.18.0.1",
		"multicast":               "224.0.0.251",
		"broadcast":               "255.255.255.255",
		"IPv6 unspecified":        "::",
		"IPv6 link-local":         "fe80::1",
		"IPv6 unique local":       "fd00:ec2::254",
		"IPv6 multicast":          "ff02::1",
		"IPv6 site-local":         "fec0::1",
		"mapped private":          "::ffff:10.0.0.1",
		"mapped metadata":         "::ffff:169.254.169.254",
		"compatible private":      "::10.0.0.1",
		"6to4 of a private":       "2002:a00:1::",
		"NAT64 of the metadata":   "64:ff9b::a9fe:a9fe",
		"local NAT64":             "64:ff9b:1::a00:1",
		"Teredo":                  "2001:0:a00:1::",
		"documentation":           "2001:db8::1",
		"private next to another": "10.0.0.1 192.168.0.1 fd00::1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resolver := nameServer(t, map[string]string{"inside.example.com": address})
			config := Config{AllowLoopback: true, Resolver: resolver} // for the good one
			f, _ := readNextTo(t, config, "sc-domain:example.com", "http://inside.example.com/sitemap.xml", base+"/good")
			wantProblem(t, f, "its server has no public address")
		})
	}
}

func TestLoopbackIsRejectedUnlessAllowed(t *testing.T) {
	var requests atomic.Int32
	base := web{"/s": func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write([]byte(goodPage))
	}}.start(t)
	port := base[strings.LastIndex(base, ":"):]
	resolver := nameServer(t, map[string]string{
		"www.example.com": "127.0.0.1", "six.example.com": "::1", "mapped.example.com": "::ffff:127.0.0.1", "other.example.com": "127.8.8.8",
	})
	// The property's own host and port, so only the guard refuses.
	for _, host := range []string{
		"www.example.com", "six.example.com", "mapped.example.com", "other.example.com", "localhost", "127.0.0.1", "[::1]",
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
	} {
		site := "http://" + host + port + "/"
		found, err := newReader(t, Config{Resolver: resolver}).Read(t.Context(), scopeOf(t, site), []string{site + "s"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		wantProblem(t, found.Files[0], "its server has no public address")
	}
	if n := requests.Load(); n != 0 {
		t.Fatalf("the server on loopback got %d requests", n)
	}
	found := read(t, Config{AllowLoopback: true, Resolver: resolver}, 0, "http://localhost"+port+"/s")
	wantProblem(t, found.Files[0], "")
	if requests.Load() != 1 {
		t.Error("loopback was allowed and got no request")
	}
}

// An IP address in a notation that only some resolvers understand belongs to no property. If it is the host of a property, the
// guard checks the address that it resolves to.
func TestUnusualIPNotationsAreRejected(t *testing.T) {
	resolver := nameServer(t, nil)
	for _, host := range []string{"2130706433", "0x7f000001", "017700000001", "127.1", "0177.0.0.1", "[::1]", "[::ffff:127.0.0.1]",
		"127.0.0.1", "localhost"} {
		found := read(t, Config{Resolver: resolver}, 0, "http://"+host+"/s.xml")
		wantProblem(t, found.Files[0], "its host is not one of the property")
	}
	for _, host := range []string{"2130706433", "0x7f000001", "017700000001", "127.1", "0177.0.0.1"} {
		site := "http://" + host + "/"
		found, err := newReader(t, Config{Resolver: resolver}).Read(t.Context(), scopeOf(t, site), []string{site + "s"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if p := found.Files[0].Problem; p != "the name of its server does not resolve" && p != "its server has no public address" {
			t.Errorf("%s: %q", host, p)
		}
	}
}

func TestOnlyURLsOfThePropertyAreFetched(t *testing.T) {
	t.Parallel()
	base := web{"/good": text(goodPage)}.start(t)
	f := func(site, path, want string) {
		t.Helper()
		found, err := newReader(t, Config{Transport: onWeb(t, base)}).Read(t.Context(), scopeOf(t, site), []string{path}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if found.Files[0].Path != path {
			t.Errorf("path %q, want %q", found.Files[0].Path, path)
		}
		wantProblem(t, found.Files[0], want)
	}
	domain, prefix := "sc-domain:example.com", "https://www.example.com:8443/shop/"
	f(domain, "http://example.com/good", "")
	f(domain, "HTTP://a.b.EXAMPLE.com:80/good#x", "")
	f(prefix, "http://www.example.com/good", "")
	f(prefix, "http://www.example.com:8443/good", "")
	for _, site := range []string{domain, prefix} {
		f(site, "file:///etc/passwd", "its address is neither http nor https")
		f(site, "file://www.example.com/etc/passwd", "its address is neither http nor https")
		f(site, "ftp://www.example.com/s.xml", "its address is neither http nor https")
		f(site, "gopher://www.example.com:70/_x", "its address is neither http nor https")
		f(site, "jar:http://www.example.com!/s.xml", "its address is neither http nor https")
		f(site, "http://example.com@127.0.0.1/", "its address carries a user name")
		f(site, "http://www.example.com:80@127.0.0.1/", "its address carries a user name")
		f(site, "http://127.0.0.1\\@www.example.com/", "its address carries a user name")
		f(site, "http://user:secret@www.example.com/", "its address carries a user name")
		f(site, "http://127.0.0.1/?@www.example.com", "its host is not one of the property")
		f(site, "http://127.0.0.1#@www.example.com", "its host is not one of the property")
		f(site, "http://www.example.com\\.evil.test/", "its address is not a valid URL")
		f(site, "http://www.example.com%2eevil.test/", "its address is not a valid URL")
		f(site, "http://www.example.com%00.evil.test/", "its address is not a valid URL")
		f(site, "http://www.example.com\r\nHost: evil.test/", "its address is not a valid URL")
		f(site, "http:www.example.com/good", "its address is not a valid URL")
		f(site, "//www.example.com/good", "its address is not a valid URL")
		f(site, "/good", "its address is not a valid URL")
		f(site, "", "its address is not a valid URL")
		f(site, "http://www.example.com/"+strings.Repeat("x", 2048), "its address is not a valid URL")
		f(site, "http://www.example.com/%zz", "its address is not a valid URL")
		f(site, "http://evilexample.com/good", "its host is not one of the property")
		f(site, "http://example.com.evil.test/good", "its host is not one of the property")
		f(site, "http://www.example.com:6379/", "its port is neither the usual one nor the property's")
	}
	f(domain, "http://www.example.com:8443/good", "its port is neither the usual one nor the property's")
	f(domain, "http://www.example.com:443/good", "its port is neither the usual one nor the property's")
	f(prefix, "https://sub.www.example.com/good", "its host is not one of the property")
	f(prefix, "https://example.com/good", "its host is not one of the property")
	f("https://[2606:4700::1]/", "http://[2606:4700:0::1]/good", "")
}

func TestRedirectsFollowTheSameRules(t *testing.T) {
	const refused = "it redirects to where it must not be followed: "
	other := web{"/good": text(goodPage)}.start(t)
	resolver := nameServer(t, map[string]string{
		"private.example.com": "10.0.0.1", "meta.example.com": "169.254.169.254", "linklocal.example.com": "fe80::1",
	})
	f := func(to, want string) {
		t.Helper()
		base := web{"/it": redirect(to), "/good": text(goodPage)}.start(t)
		file, _ := readNextTo(t, Config{AllowLoopback: true, Resolver: resolver}, "sc-domain:example.com", base+"/it", base+"/good")
		wantProblem(t, file, want)
	}
	f(other+"/good", "")
	f("http://private.example.com/", "its server has no public address")
	f("http://meta.example.com/latest/meta-data/", "its server has no public address")
	f("http://linklocal.example.com/", "its server has no public address")
	f("http://169.254.169.254/", refused+"the host is not one of the property")
	f("http://10.0.0.1/", refused+"the host is not one of the property")
	f("http://evil.test/", refused+"the host is not one of the property")
	f("//evil.test/", refused+"the host is not one of the property")
	f("http://evil\u212Axample.com/", refused+"the address is not a valid URL")
	f("http://private.example.com:6379/", refused+"the port is neither the usual one nor the property's")
	f("file:///etc/passwd", refused+"the address is neither http nor https")
	f("gopher://www.example.com/", refused+"the address is neither http nor https")
	f("data:text/plain,http://www.example.com/x", refused+"the address is neither http nor https")
	f("http://example.com@127.0.0.1/", refused+"the address carries a user name")
	f("http://[::1", "its server's answer is not valid HTTP")
	f("", "it answers 302")
}

func TestRedirectToLoopbackIsRejected(t *testing.T) {
	var requests atomic.Int32
	inside := web{"/": func(http.ResponseWriter, *http.Request) { requests.Add(1) }}.start(t)
	base := web{"/it": redirect(inside + "/"), "/6": redirect("http://[::1]/"), "/name": redirect("http://localhost/"), "/good": text(goodPage)}.start(t)
	for _, path := range []string{"it", "6", "name"} {
		f, _ := readNextTo(t, Config{Transport: onWeb(t, base)}, "sc-domain:example.com", "http://www.example.com/"+path, "http://www.example.com/good")
		wantProblem(t, f, "it redirects to where it must not be followed: the host is not one of the property")
	}
	if requests.Load() != 0 {
		t.Error("the server on loopback got a request")
	}
}

// The redirect stays within the property, but its host resolves to loopback.
func TestRedirectToNameOfLoopbackIsRejected(t *testing.T) {
	base := web{"/it": redirect("http://inside.example.com/"), "/good": text(goodPage)}.start(t)
	guarded := newTransport(nameServer(t, map[string]string{"inside.example.com": "127.0.0.1"}), false)
	outside := onWeb(t, base)
	transport := roundTrip(func(request *http.Request) (*http.Response, error) {
		if request.URL.Host == "inside.example.com" {
			return guarded.RoundTrip(request)
		}
		return outside.RoundTrip(request)
	})
	f, _ := readNextTo(t, Config{Transport: transport}, "sc-domain:example.com", "http://www.example.com/it", "http://www.example.com/good")
	wantProblem(t, f, "its server has no public address")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func TestFilesOfAnIndexFollowTheSameRules(t *testing.T) {
	base := web{"/good": text(goodPage)}.start(t)
	web := web{"/index": text(index("file:///etc/passwd", "http://10.0.0.1/s.xml", "http://user:secret@www.example.com/s.xml",
		"http://meta.example.com/s.xml", "/relative.xml", "gopher://x/", "http://\x7f/", base+"/good"))}.start(t)
	resolver := nameServer(t, map[string]string{"meta.example.com": "169.254.169.254"})
	found := read(t, Config{AllowLoopback: true, Resolver: resolver}, 0, web+"/index")
	var got []string
	for _, f := range found.Files[1:] {
		got = append(got, f.Path+" "+f.Problem)
	}
	wantStrings(t, got,
		"file:///etc/passwd its address is neither http nor https",
		"http://10.0.0.1/s.xml its host is not one of the property",
		"http://user:xxxxx@www.example.com/s.xml its address carries a user name",
		"http://meta.example.com/s.xml its server has no public address",
		"gopher://x/ its address is neither http nor https",
		base+"/good ")
	wantProblem(t, found.Files[0], "sitemaps it names without a valid address: 2")
	wantStrings(t, addressesOf(found), goodPage)
}

// A proxy would connect to any address.
func TestProxyOfEnvironmentIsIgnored(t *testing.T) {
	var requests atomic.Int32
	proxy := web{}
	proxy["/"] = func(http.ResponseWriter, *http.Request) { requests.Add(1) }
	t.Setenv("HTTP_PROXY", proxy.start(t))
	t.Setenv("http_proxy", proxy.start(t))
	found := read(t, Config{Resolver: nameServer(t, nil)}, 0, "http://www.example.com/")
	wantProblem(t, found.Files[0], "the name of its server does not resolve")
	if requests.Load() != 0 || newTransport(nil, false).Proxy != nil {
		t.Error("the proxy got a request")
	}
}

func TestProblemRevealsNoAddress(t *testing.T) {
	resolver := nameServer(t, map[string]string{"inside.example.com": "10.11.12.13", "closed.example.com": "127.0.0.1"})
	found := read(t, Config{Resolver: resolver, AllowLoopback: true}, 0, "http://inside.example.com/",
		"http://closed.example.com/", "http://127.0.0.1:1/")
	for _, f := range found.Files {
		if f.Problem == "" || strings.ContainsAny(f.Problem, "0123456789:") {
			t.Errorf("%s: %q", f.Path, f.Problem)
		}
	}
	wantProblem(t, found.Files[2], "no connection to its server")
}

func TestNoCookiesOrCredentialsAreSent(t *testing.T) {
	var seen http.Header
	base := web{"/set": func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		http.Redirect(w, r, "/good", http.StatusFound)
	}, "/good": func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		_, _ = w.Write([]byte(goodPage))
	}}.start(t)
	read(t, Config{AllowLoopback: true}, 0, base+"/set")
	if seen == nil || seen.Get("Cookie") != "" || seen.Get("Authorization") != "" || seen.Get("User-Agent") != "sara" {
		t.Errorf("header %v", seen)
	}
}
