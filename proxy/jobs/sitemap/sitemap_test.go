package sitemap

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// web is a server on loopback with a file at each path.
type web map[string]http.HandlerFunc

func (w web) start(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		handler, ok := w[request.URL.Path]
		if !ok {
			handler = http.NotFound
		}
		handler(answer, request)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func text(content string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(content)) }
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}
}

func urlset(addresses ...string) string {
	return `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + "\n" +
		"<url><loc>" + strings.Join(addresses, "</loc></url>\n<url><loc>") + "</loc></url>\n</urlset>\n"
}

func index(addresses ...string) string {
	return `<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>` +
		strings.Join(addresses, "</loc></sitemap><sitemap><loc>") + "</loc></sitemap></sitemapindex>"
}

func zipped(content string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(content)) // into memory
	_ = w.Close()
	return b.String()
}

func pages(n int) []string {
	addresses := make([]string, n)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("https://www.example.com/p/%d", i)
	}
	return addresses
}

func newReader(t testing.TB, config Config) *Reader {
	t.Helper()
	r, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func scopeOf(t testing.TB, site string) Scope {
	t.Helper()
	s, err := ParseScope(site)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read reads sitemaps of sc-domain:example.com.
func read(t testing.TB, config Config, maxURLs int, paths ...string) Found {
	t.Helper()
	found, err := newReader(t, config).Read(context.Background(), scopeOf(t, "sc-domain:example.com"), paths, maxURLs)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

const goodPage = "https://www.example.com/good"

// readNextTo reads a file and then a good one, which must be read in any case. It returns the first file and the URLs that
// only it lists.
func readNextTo(t testing.TB, config Config, site, path, good string) (File, []string) {
	t.Helper()
	found, err := newReader(t, config).Read(context.Background(), scopeOf(t, site), []string{path, good}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if f := found.Files[1]; f.Problem != "" || f.URLs != 1 {
		t.Errorf("the sitemap next to it: %+v", f)
	}
	var addresses []string
	for _, u := range found.URLs {
		if u.Address != goodPage {
			addresses = append(addresses, u.Address)
		}
	}
	return found.Files[0], addresses
}

// readOne serves one file on loopback and reads it, with a good one after it.
func readOne(t testing.TB, limits Limits, handler http.HandlerFunc) (File, []string) {
	t.Helper()
	base := web{"/it": handler, "/good": text(goodPage)}.start(t)
	limits.FileTime = cmp.Or(limits.FileTime, time.Hour) // a slow machine is no failure
	limits.TotalTime = time.Hour
	return readNextTo(t, Config{AllowLoopback: true, Limits: limits}, "sc-domain:example.com", base+"/it", base+"/good")
}

func wantProblem(t testing.TB, f File, want string) {
	t.Helper()
	if f.Problem != want {
		t.Errorf("%s: problem %q, want %q", f.Path, f.Problem, want)
	}
}

// nameServer answers DNS lookups over UDP on loopback; unknown names do not exist.
func nameServer(t *testing.T, names map[string]string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			n, peer, err := conn.ReadFrom(buffer)
			if err != nil {
				return // closed
			}
			if answer := answerName(buffer[:n], names); answer != nil {
				_, _ = conn.WriteTo(answer, peer) // the client retries
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func answerName(query []byte, names map[string]string) []byte {
	var message dnsmessage.Message
	if message.Unpack(query) != nil || len(message.Questions) != 1 {
		return nil
	}
	question := message.Questions[0]
	message.Response, message.RecursionAvailable = true, true
	message.Additionals = nil
	list, ok := names[strings.TrimSuffix(strings.ToLower(question.Name.String()), ".")]
	if !ok {
		message.RCode = dnsmessage.RCodeNameError
	}
	header := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET}
	for s := range strings.FieldsSeq(list) {
		switch ip := netip.MustParseAddr(s); {
		case ip.Is4() && question.Type == dnsmessage.TypeA:
			message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: ip.As4()}})
		case ip.Is6() && question.Type == dnsmessage.TypeAAAA:
			message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
		}
	}
	packed, err := message.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// onWeb is a transport that sends every request to the server at base.
func onWeb(t *testing.T, base string) http.RoundTripper {
	t.Helper()
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, strings.TrimPrefix(base, "http://"))
	}}
}

func addressesOf(found Found) []string {
	var addresses []string
	for _, u := range found.URLs {
		addresses = append(addresses, u.Address)
	}
	return addresses
}

func wantStrings(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
