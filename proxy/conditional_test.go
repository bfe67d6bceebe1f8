package proxy

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"sara/proxy/openapi"
)

// A client that has the answer gets a 304 without a body; it counts as a request.
func TestQueries304(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path("main", "/queries")
	first := w.get("pro", path).ok(t)
	tag := first.header.Get("ETag")
	wantMatch(t, "ETag", tag, `^W/"[^"]+"$`)
	for _, value := range []string{tag, strings.TrimPrefix(tag, "W/"), `"other", ` + tag, "*"} {
		r := w.getWith("pro", path, nil, "If-None-Match", value)
		if r.status != http.StatusNotModified || len(r.body) != 0 || r.header.Get("ETag") != tag || r.header.Get("X-Cache") != "hit" ||
			r.header.Get("Cache-Control") != "private, max-age=600" || r.header.Get("Vary") != "Authorization, Accept, Accept-Encoding" ||
			r.header.Get("X-Request-Id") == "" || r.header.Get("X-RateLimit-Remaining") == "" || r.header.Get("Content-Encoding") != "" {
			t.Errorf("If-None-Match %s: %d, %d bytes, %v", value, r.status, len(r.body), r.header)
		}
	}
	w.wantUsage(t, "pro", 6, 6, 1)
	w.getWith("pro", path, nil, "If-None-Match", `"other"`).ok(t)
	if other := w.get("pro", path, "limit", "5").ok(t).header.Get("ETag"); other == tag {
		t.Error("another answer has the same ETag")
	}
	// Answers without figures have tags too; answers that change with every request are not kept.
	terms := w.get("pro", w.path("main", "/brand-terms")).ok(t)
	w.wantMaxAge(t, "private, max-age=0", terms)
	if r := w.getWith("pro", w.path("main", "/brand-terms"), nil, "If-None-Match", terms.header.Get("ETag")); r.status != http.StatusNotModified {
		t.Errorf("brand terms that did not change answer %d", r.status)
	}
	w.wantMaxAge(t, "private, no-store", w.get("pro", "/v1/me").ok(t))
}

// Long bodies are compressed for clients that accept gzip.
func TestQueries200Compressed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long, short := w.path("main", "/queries"), w.path("main", "/devices")
	w.get("pro", long).ok(t)
	for _, c := range []struct {
		path, accept string
		compressed   bool
	}{
		{long, "gzip", true}, {long, "br, GZIP;q=0.5", true}, {long, "*", true}, {long, "x-gzip", true}, {long, "*;q=0, gzip", true},
		{long, "identity", false}, {long, "gzip;q=0", false}, {long, "gzip; q=0.000, *", false}, {long, "br, zstd", false}, {long, "*;q=0", false},
		{short, "gzip", false}, {openapi.Path, "gzip", true},
	} {
		r, body := w.raw(c.path, "Accept-Encoding", c.accept)
		if compressed := r.Header.Get("Content-Encoding") == "gzip"; compressed != c.compressed {
			t.Errorf("%s with Accept-Encoding %q: Content-Encoding %q", c.path, c.accept, r.Header.Get("Content-Encoding"))
			continue
		}
		plain := w.get("pro", c.path)
		if c.compressed {
			if len(body) > len(plain.body)/2 {
				t.Errorf("%s: %d bytes of %d", c.path, len(body), len(plain.body))
			}
			body = gunzip(t, body)
		}
		text := strings.ReplaceAll(string(body), r.Header.Get("X-Request-Id"), plain.header.Get("X-Request-Id"))
		if c.path == short {
			text = strings.Replace(text, `"cache":"miss"`, `"cache":"hit"`, 1)
		}
		if text != string(plain.body) {
			t.Errorf("%s with Accept-Encoding %q is another answer:\n%s\n%s", c.path, c.accept, text, plain.body)
		}
		if tag := r.Header.Get("ETag"); tag != plain.header.Get("ETag") {
			t.Errorf("%s: ETag %s, without compression %s", c.path, tag, plain.header.Get("ETag"))
		}
	}
}

// raw sends a request with the pro key, and returns the body as received.
func (w *world) raw(path string, headers ...string) (*http.Response, []byte) {
	w.t.Helper()
	request, err := http.NewRequest(http.MethodGet, w.base+path, nil)
	w.must(err)
	request.Header.Set("Authorization", "Bearer "+w.keys["pro"])
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	w.must(err)
	body, err := io.ReadAll(answer.Body)
	w.must(err)
	w.must(answer.Body.Close())
	return answer, body
}

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
