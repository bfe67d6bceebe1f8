package sitemap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

func TestSupportedFormats(t *testing.T) {
	a, b := "https://www.example.com/a", "https://example.com/b?c=d&e"
	utf16 := func(s string, order unicode.Endianness) string {
		s, err := unicode.UTF16(order, unicode.UseBOM).NewEncoder().String(s)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	xml := urlset(a, "https://example.com/b?c=d&amp;e")
	headed := strings.Replace(xml, "UTF-8", "utf-16", 1)
	for name, content := range map[string]string{
		"urlset":               xml,
		"without namespace":    "<urlset><url><loc>" + a + "</loc></url><url><loc>https://example.com/b?c=d&amp;e</loc></url></urlset>",
		"of another namespace": strings.Replace(xml, "www.sitemaps.org", "www.google.com", 1),
		"prefixed": `<s:urlset xmlns:s="x"><s:url><s:loc>` + a + "</s:loc></s:url><s:url><s:loc><![CDATA[" + b +
			"]]></s:loc></s:url></s:urlset>",
		"CDATA": "<urlset><url><loc><![CDATA[" + a +
			"]]></loc></url><url><loc>https://exa<!-- x -->mple.com/b?<![CDATA[c=d&]]>e</loc></url></urlset>",
		"references": "<urlset><url><loc>https://www.example.com/&#97;</loc></url><url><loc>https://example.com/b?c=d&#x26;e</loc></url></urlset>",
		"spaces": "\n\n  <urlset>\n<url><loc>\n\t " + a +
			"\r\n </loc></url> <url><loc> https://example.com/b?c=d&amp;e </loc></url></urlset>\n\n",
		"byte order mark":      "\ufeff" + xml,
		"UTF-16 big endian":    utf16(headed, unicode.BigEndian),
		"UTF-16 little endian": utf16(headed, unicode.LittleEndian),
		"plain UTF-16":         utf16(a+"\r\n"+b, unicode.LittleEndian),
		"doctype":              "<!DOCTYPE urlset SYSTEM \"http://10.0.0.1/identity.dtd\">" + xml[strings.Index(xml, "<urlset"):],
		"stylesheet": `<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="/s.xsl"?><!-- generated -->` +
			xml[strings.Index(xml, "<urlset"):],
		"gzip":              zipped(xml),
		"gzip twice":        zipped(zipped(xml)),
		"gzip in parts":     zipped(xml[:50]) + zipped("") + zipped(xml[50:]),
		"plain":             a + "\n" + b + "\n",
		"plain without end": "\ufeff\r\n" + a + "\r\n\r\n  " + b,
		"plain in capitals": "HTTPS://www.example.com/a\n" + b,
		"plain gzip":        zipped(a + "\n" + b),
		"trailing garbage":  xml + "<<<< & garbage",
	} {
		t.Run(name, func(t *testing.T) {
			f, got := readOne(t, Limits{}, text(content))
			wantProblem(t, f, "")
			wantStrings(t, got, a, b)
			if f.URLs != 2 || f.Foreign != 0 {
				t.Errorf("file %+v", f)
			}
		})
	}
}

func TestContentEncodingIsUndone(t *testing.T) {
	for coding, content := range map[string]string{
		"gzip": zipped(urlset(pages(2)...)), "x-gzip": zipped(zipped(urlset(pages(2)...))), "gzip, gzip": zipped(zipped(urlset(pages(2)...))),
		"identity": urlset(pages(2)...),
	} {
		f, got := readOne(t, Limits{}, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "gzip" {
				t.Errorf("Accept-Encoding %q", r.Header.Values("Accept-Encoding"))
			}
			w.Header().Set("Content-Encoding", coding)
			_, _ = w.Write([]byte(content))
		})
		wantProblem(t, f, "")
		wantStrings(t, got, pages(2)...)
	}
}

func TestExtensionElementsAreIgnored(t *testing.T) {
	f, got := readOne(t, Limits{}, text(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"
 xmlns:video="http://www.google.com/schemas/sitemap-video/1.1" xmlns:news="http://www.google.com/schemas/sitemap-news/0.9" xmlns:xhtml="http://www.w3.org/1999/xhtml">
 <url><image:image><image:loc>https://www.example.com/1.jpg</image:loc></image:image><image:loc>https://www.example.com/2.jpg</image:loc>
  <loc>https://www.example.com/<b>no</b>a</loc><lastmod>2026-01-01</lastmod><priority>0.5</priority>
  <video:video><video:content_loc>https://www.example.com/3.mp4</video:content_loc><loc>https://www.example.com/deep</loc></video:video>
  <news:news><news:publication><news:name>https://www.example.com/name</news:name></news:publication></news:news>
  <xhtml:link rel="alternate" hreflang="de" href="https://www.example.com/de"/></url>
 <image:url><loc>https://www.example.com/no</loc></image:url><page><loc>https://www.example.com/no</loc></page><loc>https://www.example.com/outside</loc>
 <url><lastmod>2026-01-01</lastmod></url><url/></urlset>`))
	wantProblem(t, f, "")
	wantStrings(t, got, "https://www.example.com/a")
	if f.Foreign != 0 {
		t.Errorf("file %+v", f)
	}
}

func TestCharacterSets(t *testing.T) {
	latin, err := charmap.ISO8859_1.NewEncoder().
		String(`<?xml version="1.0" encoding="ISO-8859-1"?><urlset><url><loc>https://www.example.com/é</loc></url></urlset>`)
	if err != nil {
		t.Fatal(err)
	}
	f, got := readOne(t, Limits{}, text(latin))
	wantProblem(t, f, "")
	wantStrings(t, got, "https://www.example.com/%C3%A9")

	f, got = readOne(t, Limits{}, text(strings.Replace(latin, "ISO-8859-1", "x-klingon", 1)))
	wantProblem(t, f, `its character set "x-klingon" is not known`)
	wantStrings(t, got)

	f, got = readOne(t, Limits{}, text(strings.Replace(urlset(pages(1)...), "UTF-8", "utf-16", 1))) // a frequent mistake
	wantProblem(t, f, "")
	wantStrings(t, got, pages(1)...)

	f, got = readOne(t, Limits{}, text(strings.Replace(latin, "</urlset>", strings.Repeat(`<?xml version="1.0" encoding="ISO-8859-1"?>`, 1000), 1)))
	wantProblem(t, f, "it names its character set more than once; it was read up to line 1, and the rest is lost")
	wantStrings(t, got, "https://www.example.com/%C3%A9")

	f, _ = readOne(t, Limits{}, text(strings.Replace(latin, "ISO-8859-1", "UTF-8", 1)))
	wantProblem(t, f, "its XML is broken; it was read up to line 1, and the rest is lost")
}

func TestOtherFilesAreRejectedWithReason(t *testing.T) {
	f := func(content, want string) {
		t.Helper()
		file, got := readOne(t, Limits{}, text(content))
		wantProblem(t, file, want)
		wantStrings(t, got)
	}
	f("", "it is empty")
	f(" \n", "it is empty")
	f(zipped(""), "it is empty")
	f("<!DOCTYPE html><html><head><meta charset=utf-8><title>Not found</title>", "it is an HTML page, not a sitemap")
	f("<HTML><BODY>", "it is an HTML page, not a sitemap")
	f(`<?xml version="1.0"?><rss version="2.0"><channel><link>https://www.example.com/</link></channel></rss>`, "it is a feed, not a sitemap")
	f(`<feed xmlns="http://www.w3.org/2005/Atom"/>`, "it is a feed, not a sitemap")
	f(`<sitemap><url><loc>https://www.example.com/</loc></url></sitemap>`, "it is neither an XML sitemap nor a list of addresses")
	f(`{"error":"no"}`, "it is neither an XML sitemap nor a list of addresses")
	f("www.example.com/a\n", "it is neither an XML sitemap nor a list of addresses")
	f("<", "it is neither an XML sitemap nor a list of addresses")
	f("\x00\x01", "it is neither an XML sitemap nor a list of addresses")
	f("\x1f\x8b", "it breaks off before its end")
	f("\x1f\x8bgarbage that is not gzip", "its gzip data is broken")
	f(zipped(zipped(zipped(urlset(pages(1)...)))), "it is neither an XML sitemap nor a list of addresses")
}

func TestUnacceptableResponses(t *testing.T) {
	for _, status := range []int{201, 204, 206, 301, 304, 401, 403, 404, 429, 500, 503} {
		f, _ := readOne(t, Limits{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		wantProblem(t, f, fmt.Sprintf("it answers %d", status))
	}
	f, _ := readOne(t, Limits{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		_, _ = w.Write([]byte("x"))
	})
	wantProblem(t, f, `its encoding "br" is not known`)
	f, _ = readOne(t, Limits{}, func(w http.ResponseWriter, _ *http.Request) { hijack(t, w, "not HTTP at all\r\n\r\n") })
	wantProblem(t, f, "its server's answer is not valid HTTP")
	f, _ = readOne(t, Limits{}, func(w http.ResponseWriter, _ *http.Request) { hijack(t, w, "") })
	wantProblem(t, f, "the connection to its server broke")
}

func TestUnreachableServersAreDistinguished(t *testing.T) {
	secure := httptest.NewUnstartedServer(text(goodPage))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := web{}.start(t)
	noNames := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no name server") }}
	found := read(t, Config{AllowLoopback: true, Resolver: noNames}, 0, secure.URL, "https"+strings.TrimPrefix(plain, "http"),
		"http://www.example.com/", "http://127.0.0.1:1/")
	var got []string
	for _, f := range found.Files {
		got = append(got, f.Problem)
	}
	const tls = "its server offers no connection that can be trusted (TLS)"
	wantStrings(t, got, tls, tls, "the name of its server could not be looked up", "no connection to its server")
}

// hijack writes raw bytes and closes the connection.
func hijack(t *testing.T, w http.ResponseWriter, answer string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = conn.Write([]byte(answer)) // the client may have gone
	_ = conn.Close()
}

func TestEntriesBeforeABreakCount(t *testing.T) {
	whole := urlset(pages(2000)...)
	lines := strings.SplitAfter(whole, "\n")
	head := strings.Join(lines[:1000], "")
	got := func(content string, want int, problem string) {
		t.Helper()
		f, addresses := readOne(t, Limits{}, text(content))
		wantProblem(t, f, problem)
		if len(addresses) != want || f.URLs != want {
			t.Errorf("%d addresses, %d, want %d", len(addresses), f.URLs, want)
		}
	}
	const broken = "its XML is broken; it was read up to line %d, and the rest is lost"
	got(head+"<url><loc>https://www.example.com/?a&b</loc></url>\n"+strings.Join(lines[1000:], ""), 998, fmt.Sprintf(broken, 1001))
	got(head+"<url><loc>https://www.example.com/x</url>\n", 998, fmt.Sprintf(broken, 1001))
	got(head, 998, fmt.Sprintf(broken, 1001))
	got(head+"\xff", 998, fmt.Sprintf(broken, 1001))

	packed := zipped(whole)
	f, addresses := readOne(t, Limits{}, text(packed[:len(packed)/2]))
	if !strings.HasPrefix(f.Problem, "it breaks off before its end; it was read up to line ") || len(addresses) == 0 {
		t.Errorf("truncated gzip: %q after %d addresses", f.Problem, len(addresses))
	}
	damaged := []byte(packed)
	for i := range 50 {
		damaged[len(damaged)/2+i] ^= 0xff
	}
	f, addresses = readOne(t, Limits{}, text(string(damaged)))
	if f.Problem == "" || len(addresses) == 0 {
		t.Errorf("damaged gzip: %q after %d addresses", f.Problem, len(addresses))
	}
	f, addresses = readOne(t, Limits{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
		_, _ = w.Write([]byte(head))
	})
	wantProblem(t, f, "it breaks off before its end; it was read up to line 1001, and the rest is lost")
	if len(addresses) != 998 {
		t.Errorf("broken connection: %d addresses", len(addresses))
	}
}

func TestForeignURLsAreDroppedAndCounted(t *testing.T) {
	f, got := readOne(t, Limits{}, text(urlset("https://www.example.com/a", "https://other.test/", "/relative", "", "ftp://www.example.com/",
		"https://user:secret@www.example.com/", "https://www.example.com/"+strings.Repeat("x", 3000), strings.Repeat("x", 10000),
		"https://www.example.com/b")))
	wantProblem(t, f, "")
	wantStrings(t, got, "https://www.example.com/a", "https://www.example.com/b")
	if f.URLs != 2 || f.Foreign != 7 {
		t.Errorf("file %+v", f)
	}
	f, got = readOne(t, Limits{}, text("https://www.example.com/a\nnonsense\nhttps://www.example.com/"+strings.Repeat("x", 100_000)+
		"\nhttps://www.example.com/c"+strings.Repeat(" ", 100_000)+"x\nhttps://www.example.com/b\n"))
	wantProblem(t, f, "")
	wantStrings(t, got, "https://www.example.com/a", "https://www.example.com/b")
	if f.Foreign != 3 {
		t.Errorf("file %+v", f)
	}
}

func TestDuplicateURLInAFileCountsOnce(t *testing.T) {
	f, got := readOne(t, Limits{}, text(urlset("https://www.example.com/a", "HTTPS://WWW.example.com:443/a#x", "http://www.example.com/a")))
	wantStrings(t, got, "https://www.example.com/a", "http://www.example.com/a")
	if f.URLs != 2 {
		t.Errorf("file %+v", f)
	}
}
