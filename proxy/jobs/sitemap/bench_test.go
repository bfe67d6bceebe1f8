package sitemap

import (
	"context"
	"net/http"
	"testing"
)

// BenchmarkRead reads one gzipped sitemap of 50,000 addresses over loopback.
func BenchmarkRead(b *testing.B) {
	packed := []byte(zipped(urlset(pages(maxEntries)...)))
	base := web{"/s.xml.gz": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(packed) }}.start(b)
	reader := newReader(b, Config{AllowLoopback: true})
	scope := scopeOf(b, "sc-domain:example.com")
	b.ReportAllocs()
	for b.Loop() {
		found, err := reader.Read(context.Background(), scope, []string{base + "/s.xml.gz"}, 0)
		if err != nil || len(found.URLs) != maxEntries {
			b.Fatal(len(found.URLs), err)
		}
	}
}
