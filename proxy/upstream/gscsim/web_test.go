package gscsim_test

import (
	"compress/gzip"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	searchconsole "google.golang.org/api/searchconsole/v1"

	"sara/proxy/upstream/gscsim"
)

// sitemapXML reads both kinds of file.
type sitemapXML struct {
	XMLName xml.Name
	URLs    []string `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 url>loc"`
	Files   []string `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 sitemap>loc"`
}

func fetchSitemap(t *testing.T, client *http.Client, address string) sitemapXML {
	t.Helper()
	response, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", address, response.Status)
	}
	body := io.Reader(response.Body)
	if response.Header.Get("Content-Type") == "application/gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			t.Fatal(err)
		}
	}
	var file sitemapXML
	if err := xml.NewDecoder(body).Decode(&file); err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	return file
}

func (s *simulator) inspect(t *testing.T, site, address string) *searchconsole.IndexStatusInspectionResult {
	t.Helper()
	answer, err := s.api.UrlInspection.Index.Inspect(&searchconsole.InspectUrlIndexRequest{SiteUrl: site, InspectionUrl: address}).Do()
	if err != nil {
		t.Fatal(err)
	}
	return answer.InspectionResult.IndexStatusResult
}

func TestSitemapFilesAgreeWithTheAPI(t *testing.T) {
	t.Parallel()
	config := testConfig()
	config.Quotas.InspectionsPerMinute, config.Quotas.InspectionsPerDay = -1, -1
	s := start(t, config)
	client := &http.Client{Transport: s.Web()}
	list, err := s.api.Sitemaps.List(prefixSite).Do()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, m := range list.Sitemap {
		counts[m.Path] = m.Contents[0].Submitted
	}
	index := fetchSitemap(t, client, prefixSite+"sitemap_index.xml")
	if index.XMLName.Local != "sitemapindex" || !slices.Equal(index.Files,
		[]string{prefixSite + "sitemap-pages.xml", prefixSite + "sitemap-posts.xml"}) {
		t.Fatalf("the index is %+v", index)
	}
	listedIn := map[string]string{}
	for _, path := range index.Files {
		file := fetchSitemap(t, client, path)
		if file.XMLName.Local != "urlset" || int64(len(file.URLs)) != counts[path] || len(file.URLs) < 20 {
			t.Errorf("%s lists %d addresses, the API counts %d", path, len(file.URLs), counts[path])
		}
		for _, address := range file.URLs {
			if listedIn[address] != "" {
				t.Errorf("%s is listed twice", address)
			}
			listedIn[address] = path
		}
	}
	if int64(len(listedIn)) != counts[prefixSite+"sitemap_index.xml"] {
		t.Errorf("%d addresses, of the index the API counts %d", len(listedIn), counts[prefixSite+"sitemap_index.xml"])
	}
	for _, page := range s.Pages(prefixSite) {
		status := s.inspect(t, prefixSite, page)
		if (listedIn[page] == "") != (status.CoverageState == "Indexed, not submitted in sitemap") {
			t.Errorf("%s is %q and listed in %q", page, status.CoverageState, listedIn[page])
		}
		if len(status.Sitemap) > 0 && status.Sitemap[0] != listedIn[page] {
			t.Errorf("%s is listed in %q, its inspection shows %v", page, listedIn[page], status.Sitemap)
		}
		delete(listedIn, page)
	}
	if len(listedIn) != 4 {
		t.Errorf("%d of the listed addresses are no pages, want 4", len(listedIn))
	}
	for address := range listedIn {
		if status := s.inspect(t, prefixSite, address); status.CoverageState != "URL is unknown to Google" {
			t.Errorf("%s is %q", address, status.CoverageState)
		}
	}
}

func TestTheListenerServesSitemapsByHostAndPath(t *testing.T) {
	listener := httptest.NewUnstartedServer(nil)
	local := "http://" + listener.Listener.Addr().String() + "/shop/"
	config := testConfig()
	config.Users[0].Sites = append(config.Users[0].Sites, gscsim.Site{URL: local, Queries: 50, Pages: 20})
	s := gscsim.New(config)
	listener.Config.Handler = s
	listener.Start()
	t.Cleanup(listener.Close)

	index := fetchSitemap(t, listener.Client(), local+"sitemap_index.xml")
	if len(index.Files) != 2 || !strings.HasPrefix(index.Files[0], local) {
		t.Errorf("the index of a site on the simulator itself names %v", index.Files)
	}
	if err := s.SetFaults(gscsim.Faults{Status: 503}); err != nil {
		t.Fatal(err)
	}
	get := func(method, host, path string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, listener.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		response, err := listener.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	for _, c := range []struct {
		method, host, path string
		want               int
	}{
		{"GET", "www.example.org", "/shop/sitemap-pages.xml", 200},
		{"HEAD", "WWW.Example.org:80", "/shop/sitemap-pages.xml", 200},
		{"GET", "www.example.com", "/sitemap_index.xml", 200},
		{"GET", "www.example.com", "/shop/sitemap-pages.xml", 404},
		{"GET", "www.example.org", "/shop/sitemap-pages.xml?page=2", 404},
		{"GET", "www.example.org", "/shop/", 404},
		{"POST", "www.example.org", "/shop/sitemap-pages.xml", 404},
		{"GET", "www.young.example", "/sitemap_index.xml", 404},
	} {
		if code := get(c.method, c.host, c.path); code != c.want {
			t.Errorf("%s %s%s: %d, want %d", c.method, c.host, c.path, code, c.want)
		}
	}
	if calls := s.Calls(); calls != (gscsim.Calls{}) {
		t.Errorf("requests for files count as calls: %+v", calls)
	}
}

func TestWebNeedsNoNetwork(t *testing.T) {
	config := testConfig()
	config.Users[0].Sites[0].Sitemaps = []string{"https://www.example.com/a.xml.gz", "http://cdn.example.net/b.xml?of=example", "::"}
	client := &http.Client{Transport: gscsim.New(config).Web()}
	compressed, plain := fetchSitemap(t, client, "https://www.example.com/a.xml.gz"),
		fetchSitemap(t, client, "https://CDN.example.net:443/b.xml?of=example")
	if len(compressed.URLs) < 250 || !slices.Equal(compressed.URLs, plain.URLs) {
		t.Errorf("configured sitemaps list %d and %d addresses, want the same of both", len(compressed.URLs), len(plain.URLs))
	}
	if !slices.ContainsFunc(plain.URLs, func(address string) bool { return strings.Contains(address, "&page=") }) {
		t.Error("no address needs to be escaped")
	}
	for _, address := range []string{"https://www.example.com/", "https://www.example.com/sitemap_index.xml", "https://nowhere.example/a.xml"} {
		response, err := client.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", address, response.Status)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://www.example.com/a.xml.gz", nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := client.Do(r); !errors.Is(err, context.Canceled) {
		_ = response.Body.Close()
		t.Errorf("a canceled request: %v", err)
	}
}
