package sitemap

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// endless writes a chunk until the client disconnects.
func endless(head, chunk string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write([]byte(head))
		for err == nil {
			_, err = w.Write([]byte(chunk))
		}
	}
}

func TestFileBytesBoundTheBody(t *testing.T) {
	limits := Limits{FileBytes: 1 << 20}
	line := strings.Repeat("<url><loc>https://www.example.com/a</loc></url>\n", 100)
	f := func(handler http.HandlerFunc, want string) {
		t.Helper()
		file, _ := readOne(t, limits, handler)
		if !strings.HasPrefix(file.Problem, want) {
			t.Errorf("problem %q, want %q", file.Problem, want)
		}
	}
	f(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000000000000")
		_, _ = w.Write([]byte("<urlset>"))
	}, "it is larger than 1.0 MiB")
	f(endless("<urlset>", line), "it is larger than 1.0 MiB; it was read up to line ")
	f(endless("https://www.example.com/\n", strings.Repeat(" ", 999)+"\n"), "it is larger than 1.0 MiB")
	f(endless("https://www.example.com/", strings.Repeat("x", 1000)), "it is larger than 1.0 MiB")
	f(endless("", strings.Repeat("\n", 1000)), "it is larger than 1.0 MiB")
	f(endless("", zipped("")), "it is larger than 1.0 MiB")
	f(endless("\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x00", strings.Repeat("x", 1000)), "its gzip data is broken")
	f(text("<urlset>"+strings.Repeat(" ", 1<<20-9)), "it has an element, a comment or a text that is too long")
}

func TestFileBytesIsInclusive(t *testing.T) {
	xml := urlset(pages(10)...)
	f, got := readOne(t, Limits{FileBytes: int64(len(xml))}, text(xml))
	wantProblem(t, f, "")
	if len(got) != 10 {
		t.Errorf("%d addresses", len(got))
	}
	f, _ = readOne(t, Limits{FileBytes: int64(len(xml)) - 1}, text(xml))
	wantProblem(t, f, "it is larger than 609 B")
}

func TestSlowResponsesTimeOut(t *testing.T) {
	limits := Limits{FileTime: 500 * time.Millisecond}
	byByte := func(content string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for i := range len(content) {
				_, _ = w.Write([]byte{content[i]})
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-tick.C:
				}
			}
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		urls    int
		want    string
	}{
		"a byte a second": {byByte(urlset(pages(1)...)), 0, ""},
		"part of the file": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(strings.TrimSuffix(urlset(pages(2)...), "</urlset>\n")))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, 2, "; it was read up to line 5, and the rest is lost"},
		"no header": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 0, ""},
		"half a header": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Ty"))
			_, _ = conn.Read(make([]byte, 1)) // until the client is gone
		}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := readOne(t, limits, c.handler)
			wantProblem(t, f, "no complete answer within 500ms"+c.want)
			if f.URLs != c.urls {
				t.Errorf("file %+v", f)
			}
		})
	}
}

func TestHugeHeadersAreRejected(t *testing.T) {
	f, _ := readOne(t, Limits{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Large", strings.Repeat("x", maxHeader))
		_, _ = w.Write([]byte(goodPage))
	})
	wantProblem(t, f, "its server's answer is not valid HTTP")
	f, _ = readOne(t, Limits{FileTime: 10 * time.Second}, func(w http.ResponseWriter, _ *http.Request) {
		hijack(t, w, strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("x", 1000)+"\r\n\r\n", 10_000))
	})
	if f.Problem == "" || strings.Contains(f.Problem, "within") {
		t.Errorf("endless early hints: %q", f.Problem)
	}
}

func TestDecompressionBombsAreBounded(t *testing.T) {
	bomb := func(head string, megabytes int) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(head)) // into memory
		for range megabytes << 4 {
			_, _ = w.Write(bytes.Repeat([]byte("\n"), 1<<16))
		}
		_ = w.Close()
		return b.String()
	}
	limits := Limits{FileBytes: 1 << 20}
	for name, content := range map[string]string{
		"of white space":   bomb("", 3),
		"of lines":         bomb("https://www.example.com/\n", 3),
		"gzip within gzip": zipped(bomb("", 3)),
		"gzip of a large gzip that opens into little": zipped(strings.Repeat(zipped(""), 1<<16)),
	} {
		f, _ := readOne(t, limits, text(content))
		if f.Problem != "it is larger than 1.0 MiB" {
			t.Errorf("%s (%d bytes): %q", name, len(content), f.Problem)
		}
	}
	f, _ := readOne(t, limits, text(bomb("<urlset>", 3)))
	wantProblem(t, f, "it has an element, a comment or a text that is too long; it was read up to line 262145, and the rest is lost")
}

// A property may have many files, of which each is a bomb within its own bound.
func TestBytesOfAllFilesAreBounded(t *testing.T) {
	blank := text(zipped(goodPage + strings.Repeat("\n", 1<<20)))
	base := web{"/1": blank, "/2": blank, "/3": blank, "/good": text(goodPage)}.start(t)
	limits := Limits{TotalBytes: 2 << 20, FileTime: time.Hour, TotalTime: time.Hour}
	found := read(t, Config{AllowLoopback: true, Limits: limits}, 0, base+"/1", base+"/2", base+"/3", base+"/good")
	const tooMuch = "not read: there were files of more than 2.0 MiB before it"
	for i, want := range []string{"", "", tooMuch, tooMuch} {
		wantProblem(t, found.Files[i], want)
	}
	if !found.Full || len(found.URLs) != 1 {
		t.Errorf("found %+v", found)
	}
}

func TestEntitiesAreNotExpanded(t *testing.T) {
	laughs := `<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol">`
	for i := range 9 {
		laughs += fmt.Sprintf(`<!ENTITY lol%d "%s">`, i+1, strings.Repeat("&lol;", 10))
	}
	entry := "<urlset><url><loc>https://www.example.com/&x;</loc></url></urlset>"
	for _, content := range []string{
		laughs + "]>" + entry,
		`<!DOCTYPE urlset [<!ENTITY x SYSTEM "file:///etc/passwd">]>` + entry,
		`<!DOCTYPE urlset [<!ENTITY x SYSTEM "http://169.254.169.254/latest/meta-data/">]>` + entry,
		`<!DOCTYPE urlset [<!entity % x SYSTEM "http://10.0.0.1/x.dtd"> %x;]>` + entry,
	} {
		f, got := readOne(t, Limits{}, text(content))
		wantProblem(t, f, "it declares entities of its own, which are not read")
		wantStrings(t, got)
	}
	f, got := readOne(t, Limits{}, text(`<!DOCTYPE urlset SYSTEM "http://10.0.0.1/x.dtd">`+entry))
	wantProblem(t, f, "its XML is broken; it was read up to line 1, and the rest is lost")
	wantStrings(t, got)
}

func TestNestingAndTokenLengthAreBounded(t *testing.T) {
	f, _ := readOne(t, Limits{}, text("<urlset>"+strings.Repeat("<a>", 1_000_000)))
	wantProblem(t, f, "its elements are nested too deeply, and the rest is not read")
	const long = "it has an element, a comment or a text that is too long"
	for name, content := range map[string]string{
		"comment":    "<urlset><!--" + strings.Repeat("x", 2*maxToken),
		"attribute":  `<urlset a="` + strings.Repeat("x", 2*maxToken),
		"attributes": "<urlset" + strings.Repeat(` a=""`, maxToken),
		"name":       "<" + strings.Repeat("x", 2*maxToken),
		"text":       "<urlset><url><loc>" + strings.Repeat("x", 2*maxToken),
		"doctype":    "<!DOCTYPE " + strings.Repeat("<", 2*maxToken),
	} {
		f, _ := readOne(t, Limits{}, text(content))
		if !strings.HasPrefix(f.Problem, long) {
			t.Errorf("%s: %q", name, f.Problem)
		}
	}
}

// The decoder may deliver a URL in any number of tokens.
func TestLocIsBounded(t *testing.T) {
	var longest sizes
	content := "<urlset><url><loc>" + strings.Repeat(strings.Repeat("x", 1000)+"<!-- -->", 100) + "</loc></url></urlset>"
	if err := parse(bufio.NewReader(strings.NewReader(content)), &longest); err != nil || longest != maxRaw+1 {
		t.Errorf("%d bytes, %v", longest, err)
	}
}

type sizes int

func (s *sizes) begin(bool) error { return nil }
func (s *sizes) add(address string) error {
	*s = max(*s, sizes(len(address)))
	return nil
}

// Memory depends on what is found, not on what is sent: megabytes of white space, comments and foreign URLs take none.
func TestMemoryIsBoundedByWhatIsFound(t *testing.T) {
	row := "<url><loc>https://other.test/" + strings.Repeat("x", 2000) + "</loc></url><!--" + strings.Repeat(" ", 30_000) + "-->\n"
	var before, after runtime.MemStats
	var live uint64
	handler := func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write([]byte("<urlset>"))
		for i := 0; err == nil; i++ {
			if i%64 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&after)
				live = max(live, after.HeapAlloc)
			}
			_, err = w.Write([]byte(row))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&before)
	f, _ := readOne(t, Limits{FileBytes: 8 << 20}, handler)
	if !strings.HasPrefix(f.Problem, "it is larger than 8.0 MiB") {
		t.Errorf("problem %q", f.Problem)
	}
	if live > before.HeapAlloc+3<<20 {
		t.Errorf("%d bytes live while 8 MiB were read", live-before.HeapAlloc)
	}
}

func TestEntriesOfAFileAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	f, got := readOne(t, Limits{}, text(zipped(urlset(pages(maxEntries)...))))
	wantProblem(t, f, "")
	if len(got) != maxEntries || f.URLs != maxEntries {
		t.Errorf("%d addresses, file %+v", len(got), f)
	}
	f, got = readOne(t, Limits{}, text(urlset(pages(maxEntries+1)...)))
	wantProblem(t, f, "it lists more than 50,000 entries, and the rest is not read")
	if len(got) != maxEntries || f.URLs != maxEntries {
		t.Errorf("%d addresses, file %+v", len(got), f)
	}
	f, got = readOne(t, Limits{}, text(strings.Join(pages(maxEntries+1), "\n")))
	wantProblem(t, f, "it lists more than 50,000 entries, and the rest is not read")
	if len(got) != maxEntries {
		t.Errorf("%d addresses", len(got))
	}
}

func TestRedirectsAreCounted(t *testing.T) {
	base := web{"/5": redirect("/4"), "/4": redirect("/3"), "/3": redirect("/2"), "/2": redirect("/1"), "/1": redirect("/0"), "/0": text(goodPage),
		"/6": redirect("/5"), "/loop": redirect("/loop")}.start(t)
	found := read(t, Config{AllowLoopback: true}, 0, base+"/5", base+"/6", base+"/loop")
	wantProblem(t, found.Files[0], "")
	wantProblem(t, found.Files[1], "it redirects more than 5 times")
	wantProblem(t, found.Files[2], "it redirects more than 5 times")
}

func TestTotalTimeEndsReadingWithoutError(t *testing.T) {
	base := web{"/slow": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "/good": text(goodPage)}.start(t)
	found := read(t, Config{AllowLoopback: true, Limits: Limits{TotalTime: 500 * time.Millisecond}}, 0, base+"/good", base+"/slow", base+"/good?2")
	wantProblem(t, found.Files[0], "")
	wantProblem(t, found.Files[1], "the time limit for all sitemaps, 500ms, was reached while it was read")
	wantProblem(t, found.Files[2], "not read: the time limit for all sitemaps, 500ms, was reached")
	wantStrings(t, addressesOf(found), goodPage)
}

func TestReadFailsOnlyWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	base := web{"/slow": func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}}.start(t)
	_, err := newReader(t, Config{AllowLoopback: true}).Read(ctx, scopeOf(t, "sc-domain:example.com"), []string{base + "/slow", base + "/2"}, 0)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
