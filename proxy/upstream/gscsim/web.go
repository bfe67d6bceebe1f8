package gscsim

import (
	"bytes"
	"encoding/xml"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// sitemapFile is a file on the web server of a site.
type sitemapFile struct {
	site Site
	n    int // which of its sitemaps
}

// sitemapFiles returns the files of all sites by fileKey. If two users claim a URL, the first one gets it.
func sitemapFiles(users []User) map[string]sitemapFile {
	files := map[string]sitemapFile{}
	for i := range users {
		for _, site := range users[i].Sites {
			for n, path := range site.sitemapPaths() {
				u, err := url.Parse(path)
				if err != nil {
					continue // not a URL that can be fetched
				}
				key := fileKey(u.Host, u)
				if _, taken := files[key]; !taken {
					files[key] = sitemapFile{site, n}
				}
			}
		}
	}
	return files
}

// fileKey is a URL without its scheme: http and https reach the same server.
func fileKey(host string, u *url.URL) string {
	host = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), ":80"), ":443")
	return host + u.RequestURI()
}

// fileOf returns the file that a request to a host names.
func (s *Server) fileOf(r *http.Request, host string) (sitemapFile, bool) {
	if r.Method != "" && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return sitemapFile{}, false
	}
	file, ok := s.files[fileKey(host, r.URL)]
	return file, ok
}

// document is a web server's response.
type document struct {
	mediaType string
	body      []byte
}

type urlSet struct {
	XMLName xml.Name  `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 urlset"`
	URLs    []located `xml:"url"`
}

type sitemapIndex struct {
	XMLName  xml.Name  `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 sitemapindex"`
	Sitemaps []located `xml:"sitemap"`
}

type located struct {
	Loc     string `xml:"loc"`
	LastMod string `xml:"lastmod"`
}

// render returns a file: an index of the other sitemaps, or a list of URLs.
func (s *Server) render(file sitemapFile) document {
	w, paths := s.world(file.site), file.site.sitemapPaths()
	locate := func(address string) located {
		return located{address, s.recurring(mix(hashText(w.seed, address)), 60*24*time.Hour).Format(dayLayout)}
	}
	var content any
	if file.site.isIndex(file.n) {
		index := sitemapIndex{}
		for _, path := range paths[1:] {
			index.Sitemaps = append(index.Sitemaps, locate(path))
		}
		content = index
	} else {
		set := urlSet{}
		for _, address := range w.submitted(file.site, file.n) {
			set.URLs = append(set.URLs, locate(address))
		}
		content = set
	}
	text, err := xml.MarshalIndent(content, "", "  ")
	if err != nil {
		panic("BUG: gscsim: a sitemap does not encode: " + err.Error())
	}
	text = append([]byte(xml.Header), text...)
	if strings.HasSuffix(paths[file.n], ".gz") {
		return document{"application/gzip", compress(text)}
	}
	return document{"application/xml; charset=UTF-8", text}
}

func (d document) header() http.Header {
	return http.Header{"Content-Type": {d.mediaType}, "Content-Length": {strconv.Itoa(len(d.body))}}
}

func (d document) serve(w http.ResponseWriter, r *http.Request) {
	maps.Copy(w.Header(), d.header())
	if r.Method != http.MethodHead {
		_, _ = w.Write(d.body) // a disconnected client is not an error
	}
}

// Web returns the web of the simulated sites as a transport without a network. It answers the URL of a sitemap with the file,
// whatever the scheme, and any other URL with 404. It is safe for concurrent use.
func (s *Server) Web() http.RoundTripper { return siteWeb{s} }

type siteWeb struct{ sim *Server }

// RoundTrip implements http.RoundTripper.
func (t siteWeb) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close() // unread
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	code, answer := http.StatusNotFound, document{"text/plain; charset=utf-8", []byte("404 page not found\n")}
	if file, ok := t.sim.fileOf(r, r.URL.Host); ok {
		code, answer = http.StatusOK, t.sim.render(file)
	}
	response := &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.header(), ContentLength: int64(len(answer.body)), Body: http.NoBody, Request: r,
	}
	if r.Method != http.MethodHead {
		response.Body = io.NopCloser(bytes.NewReader(answer.body))
	}
	return response, nil
}
