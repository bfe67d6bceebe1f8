package inspector

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"sara/archive/sqlstore"
	"sara/proxy/jobs/sitemap"
	"sara/proxy/upstream"
)

// findings are the sources of a discovery.
type findings struct {
	listed   []upstream.Sitemap    // listed by the upstream
	found    sitemap.Found         // found in them
	clicks   map[string]int64      // clicks of the archived pages with traffic
	archived bool                  // any of the days of clicks is archived
	live     map[string]int64      // clicks of more pages, from the upstream; nil if it did not answer
	tracked  []sqlstore.TrackedURL // before this discovery
}

// A page is a candidate URL.
type page struct {
	sqlstore.DiscoveredURL
	tracked bool // before this discovery
	visited bool // it had traffic
}

// discovery merges the findings, and keeps at most maxURLs: those with the most clicks; among equals, first those that were
// already tracked, because they have results; then by URL.
func (f findings) discovery(maxURLs int) sqlstore.Discovery {
	d := sqlstore.Discovery{Capped: f.found.Full}
	pages := slices.Collect(maps.Values(f.pages(&d)))
	slices.SortFunc(pages, func(a, b *page) int {
		return cmp.Or(cmp.Compare(b.Clicks, a.Clicks), trueFirst(a.tracked, b.tracked), cmp.Compare(a.URL, b.URL))
	})
	if len(pages) > maxURLs {
		pages, d.Capped = pages[:maxURLs], true
	}
	var listed, visited bool
	d.URLs = make([]sqlstore.DiscoveredURL, len(pages))
	for i, p := range pages {
		d.URLs[i] = p.DiscoveredURL
		listed, visited = listed || len(p.Sitemaps) > 0, visited || p.visited
	}
	switch {
	case listed && visited:
		d.Source = "sitemap+performance"
	case listed:
		d.Source = "sitemap"
	case visited:
		d.Source = "performance"
	}
	return d
}

// trueFirst orders true before false.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// pages returns all candidates by URL, and adds the sitemaps that contain them to d.
func (f findings) pages(d *sqlstore.Discovery) map[string]*page {
	pages := make(map[string]*page, len(f.found.URLs)+len(f.clicks))
	pageOf := func(url string) *page {
		p := pages[url]
		if p == nil {
			clicks, visited := f.clicks[url]
			p = &page{DiscoveredURL: sqlstore.DiscoveredURL{URL: url, Clicks: max(clicks, f.live[url])}, visited: visited}
			pages[url] = p
		}
		return p
	}
	s := f.sitemaps(d)
	for _, u := range f.found.URLs {
		p := pageOf(u.Address)
		for _, file := range u.Files {
			p.Sitemaps = append(p.Sitemaps, s.index(f.found.Files[file].Path))
		}
	}
	for url := range f.clicks {
		pageOf(url)
	}
	for _, u := range f.tracked {
		unread := s.presumed(u)
		if p := pages[u.URL]; p != nil || len(unread) > 0 {
			p = pageOf(u.URL)
			p.tracked = true
			p.Sitemaps = append(p.Sitemaps, unread...)
		}
	}
	for _, p := range pages {
		slices.Sort(p.Sitemaps)
		p.Sitemaps = slices.Compact(p.Sitemaps)
	}
	return pages
}

// sitemaps adds sitemaps to a Discovery.
type sitemaps struct {
	*sqlstore.Discovery
	indexes map[string]int32        // by path
	visited map[string]sitemap.File // by path
	files   []sitemap.File          // that the reader visited
}

// sitemaps adds the listed and the visited sitemaps to d.
func (f findings) sitemaps(d *sqlstore.Discovery) sitemaps {
	s := sitemaps{d, make(map[string]int32), make(map[string]sitemap.File), f.found.Files}
	for _, l := range f.listed {
		i := s.index(l.Path)
		d.Sitemaps[i] = sqlstore.DiscoveredSitemap{Path: l.Path, LastDownloaded: optional(l.LastDownloaded),
			IsPending: &l.IsPending, Warnings: &l.Warnings, Errors: &l.Errors}
	}
	for _, file := range s.files {
		i := s.index(file.Path)
		d.Sitemaps[i].Problem = file.Problem
		s.visited[file.Path] = file
	}
	return s
}

// index returns the index of a sitemap, and adds it if it is new.
func (s sitemaps) index(path string) int32 {
	i, ok := s.indexes[path]
	if !ok {
		i = int32(len(s.Sitemaps)) // #nosec G115 -- a reader follows some hundred files
		s.indexes[path] = i
		s.Sitemaps = append(s.Sitemaps, sqlstore.DiscoveredSitemap{Path: path})
	}
	return i
}

// notReached is the Problem of a sitemap that only an earlier discovery reached.
const notReached = "not read: the index file that named it could not be read"

// presumed returns the sitemaps that could not be read, and so may still list a tracked URL, with the index files above them.
// It includes a sitemap that was not reached if another sitemap of the URL could not be read, because that one may be the index
// file that names it.
func (s sitemaps) presumed(u sqlstore.TrackedURL) (presumed []int32) {
	if !slices.ContainsFunc(u.Sitemaps, func(path string) bool { return s.visited[path].Problem != "" }) {
		return nil
	}
	for _, path := range u.Sitemaps {
		file, visited := s.visited[path]
		if visited && file.Problem == "" {
			continue
		}
		i := s.index(path)
		if !visited {
			s.Sitemaps[i].Problem = notReached
		}
		presumed = append(presumed, i)
		for _, above := range file.Above {
			presumed = append(presumed, s.index(s.files[above].Path))
		}
	}
	return presumed
}

// optional returns nil for the zero time.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
