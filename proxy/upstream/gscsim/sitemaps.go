package gscsim

import (
	"net/http"
	"slices"
	"time"
)

type sitemap struct {
	Path            string           `json:"path"`
	LastSubmitted   string           `json:"lastSubmitted"`
	IsPending       bool             `json:"isPending"`
	IsSitemapsIndex bool             `json:"isSitemapsIndex"`
	Type            string           `json:"type,omitempty"`
	LastDownloaded  string           `json:"lastDownloaded,omitempty"`
	Warnings        int64            `json:"warnings,string"`
	Errors          int64            `json:"errors,string"`
	Contents        []sitemapContent `json:"contents,omitempty"`
}

type sitemapContent struct {
	Type      string `json:"type"`
	Submitted int64  `json:"submitted,string"`
	Indexed   int64  `json:"indexed,string"`
}

// sitemapPaths returns the URLs of a site's submitted sitemaps. By default the first is the index of the others.
func (site Site) sitemapPaths() []string {
	if site.Sitemaps != nil {
		return site.Sitemaps
	}
	root := siteRoot(site.URL)
	return []string{root + "sitemap_index.xml", root + "sitemap-pages.xml", root + "sitemap-posts.xml"}
}

// isIndex reports whether the n-th sitemap of a site is the index of the others.
func (site Site) isIndex(n int) bool { return site.Sitemaps == nil && n == 0 }

// lists reports whether the n-th sitemap of a site lists the URL with that hash. Each configured sitemap lists all URLs; each of the
// two default ones lists half of them.
func (site Site) lists(n int, h uint64) bool { return site.Sitemaps != nil || n == 1+int(h>>20%2) }

// sitemapOf returns the URL of a sitemap that lists the URL with that hash, as an inspection shows it.
func (site Site) sitemapOf(h uint64) []string {
	paths := site.sitemapPaths()
	for i := range paths {
		if n := (i + int(h%uint64(len(paths)))) % len(paths); site.lists(n, h) {
			return paths[n : n+1]
		}
	}
	return nil
}

// submitted returns the URLs that the n-th sitemap of a site lists: pages, and some that are not pages yet.
func (w *world) submitted(site Site, n int) []string {
	var addresses []string
	add := func(address string) {
		if site.lists(n, hashText(w.seed, address)) {
			addresses = append(addresses, address)
		}
	}
	for rank, page := range w.pageByRank {
		if isSubmitted(rank) {
			add(w.pages[page])
		}
	}
	for _, address := range w.upcoming {
		add(address)
	}
	return addresses
}

// sitemaps describes the submitted sitemaps. An index counts the URLs of the others.
func (s *Server) sitemaps(site Site) []sitemap {
	paths := site.sitemapPaths()
	w := s.world(site)
	answer := make([]sitemap, 0, len(paths))
	total := int64(0)
	for i, path := range paths {
		h := hashText(w.seed, path)
		m := sitemap{
			Path: path, Type: "sitemap", IsSitemapsIndex: site.isIndex(i),
			IsPending:      h%9 == 0,
			LastSubmitted:  s.recurring(h, 200*24*time.Hour).Format(time.RFC3339Nano),
			LastDownloaded: s.recurring(mix(h), 3*24*time.Hour).Format(time.RFC3339Nano),
			Warnings:       int64(h >> 8 % 4),
		}
		submitted := int64(len(w.submitted(site, i)))
		total += submitted
		m.Contents = []sitemapContent{{Type: "web", Submitted: submitted}}
		answer = append(answer, m)
	}
	if len(answer) > 0 && answer[0].IsSitemapsIndex {
		answer[0].Contents[0].Submitted = total
	}
	return answer
}

// recurring returns the latest occurrence, in whole milliseconds, of an event that happens once in a period.
func (s *Server) recurring(h uint64, period time.Duration) time.Time {
	now := s.config.Now().UTC().Truncate(time.Millisecond)
	phase := time.Duration(h % uint64(period)).Truncate(time.Millisecond)
	return now.Add(-((time.Duration(now.UnixMilli())*time.Millisecond + phase) % period))
}

// listSitemaps lists all sitemaps, or with the sitemapIndex parameter those in that index.
func (s *Server) listSitemaps(r *http.Request) (any, *apiError) {
	site, fail := s.readableSite(r)
	if fail != nil {
		return nil, fail
	}
	all := s.sitemaps(site)
	if index := r.URL.Query().Get("sitemapIndex"); index != "" {
		isIndex := slices.ContainsFunc(all, func(m sitemap) bool { return m.Path == index && m.IsSitemapsIndex })
		all = slices.DeleteFunc(all, func(m sitemap) bool { return !isIndex || m.IsSitemapsIndex })
	}
	return struct {
		Sitemap []sitemap `json:"sitemap,omitempty"`
	}{all}, nil
}

func (s *Server) getSitemap(r *http.Request) (any, *apiError) {
	site, fail := s.readableSite(r)
	if fail != nil {
		return nil, fail
	}
	path := segment(r, 5)
	all := s.sitemaps(site)
	if i := slices.IndexFunc(all, func(m sitemap) bool { return m.Path == path }); i >= 0 {
		return all[i], nil
	}
	return nil, notFound("'%s' is not a sitemap that was submitted for '%s'.", path, site.URL)
}
