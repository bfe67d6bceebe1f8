package inspector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sara/archive/sqlstore"
	"sara/proxy/jobs/sitemap"
	"sara/proxy/upstream"
	"sara/translate"
)

// A SitemapProblem is why a sitemap was not read, or only in part.
type SitemapProblem struct {
	Path    string
	Problem string // for people
}

func (p SitemapProblem) String() string { return fmt.Sprintf("sitemap %s: %s", p.Path, p.Problem) }

// Discovered is the notice that discovery is done.
type Discovered struct {
	URLs   int
	Capped bool // there were more than the plan inspects
}

func (d Discovered) String() string {
	if d.Capped {
		return fmt.Sprintf("%d URLs, those with the most clicks", d.URLs)
	}
	return fmt.Sprintf("%d URLs", d.URLs)
}

// discover finds the URLs of a property and keeps those with the most clicks. After an error the tracked URLs stay as they are.
func (r *run) discover(ctx context.Context, t *task, tracked []sqlstore.TrackedURL) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("discover the URLs: %w", err)
		}
	}()
	p := t.Property
	f, err := r.find(ctx, p)
	if err != nil {
		return err
	}
	f.tracked = tracked
	d := f.discovery(p.MaxURLs)
	d.At = r.config.Now()
	for _, s := range d.Sitemaps {
		if s.Problem != "" {
			t.Problems = append(t.Problems, SitemapProblem{s.Path, s.Problem})
		}
	}
	defer func() {
		r.config.Progress.Noticed(p.Target, Discovered{t.URLs, t.Capped})
		for _, problem := range t.Problems {
			r.config.Progress.Noticed(p.Target, problem)
		}
	}()
	if len(d.URLs) == 0 {
		if err := f.refuseEmpty(t.Problems); err != nil {
			return err
		}
	}
	if err := r.config.Store.SaveDiscovery(ctx, p.PropertyID, d); err != nil {
		return err
	}
	t.URLs, t.Capped = len(d.URLs), d.Capped
	return nil
}

// find reads the sources of a discovery: the sitemaps that the upstream lists, and the pages with traffic.
func (r *run) find(ctx context.Context, p Property) (f findings, err error) {
	scope, err := sitemap.ParseScope(p.Site)
	if err != nil {
		return f, err
	}
	if f.listed, err = r.sitemaps(ctx, p); err != nil {
		return f, fmt.Errorf("ask which sitemaps there are: %w", err)
	}
	paths := make([]string, len(f.listed))
	for i, s := range f.listed {
		paths[i] = s.Path
	}
	if f.found, err = r.config.Sitemaps.Read(ctx, scope, paths, max(minSitemapURLs, 2*p.MaxURLs)); err != nil {
		return f, err
	}
	f.clicks, f.archived, err = r.traffic(ctx, p, scope)
	return f, err
}

// refuseEmpty explains why an empty discovery must not erase the tracked URLs; nil if it may.
func (f findings) refuseEmpty(problems []SitemapProblem) error {
	switch {
	case len(problems) > 0:
		return fmt.Errorf("no URLs were found, and the sitemap %s was not read: %s", problems[0].Path, problems[0].Problem)
	case len(f.tracked) > 0:
		return fmt.Errorf("no URLs were found this time: the %d tracked URLs are kept", len(f.tracked))
	case !f.archived:
		return errors.New("no URLs were found: Search Console lists no sitemaps, and no pages with traffic have been archived yet")
	}
	return nil
}

// sitemaps lists the sitemaps of a property, with retries.
func (r *run) sitemaps(ctx context.Context, p Property) (listed []upstream.Sitemap, err error) {
	err = r.retry(ctx, p, func() error {
		if err := r.lost.Err(p.ConnectionID); err != nil {
			return err
		}
		listed, err = r.config.Gateway.Sitemaps(ctx, p.Target)
		r.lost.Note(p.ConnectionID, err)
		return err
	})
	return listed, err
}

// traffic returns the clicks of the archived pages with traffic, which may be zero, and whether any of the days is archived.
func (r *run) traffic(ctx context.Context, p Property, scope sitemap.Scope) (clicks map[string]int64, archived bool, err error) {
	anchor := r.calendar.Anchor(r.config.Now())
	result, err := r.config.History.Read(ctx, p.PropertyID, translate.ByPage,
		translate.DateRange{Start: anchor - trafficDays + 1, End: anchor}, 0)
	if err != nil {
		return nil, false, err
	}
	pages := result.Rows
	clicks = make(map[string]int64, pages.Len())
	for i := range pages.Len() {
		if address, ok := scope.Clean(string(pages.Key(i))); ok {
			clicks[address] += pages.Metrics(i).Clicks
		}
	}
	return clicks, len(result.Missing) < trafficDays, nil
}

// findings are the sources of a discovery.
type findings struct {
	listed   []upstream.Sitemap    // by the upstream
	found    sitemap.Found         // in them
	clicks   map[string]int64      // of the pages with traffic
	archived bool                  // any of the days of clicks is archived
	tracked  []sqlstore.TrackedURL // before this discovery
}

// A page is a candidate URL.
type page struct {
	sqlstore.DiscoveredURL
	tracked bool // before this discovery
	visited bool // it had traffic
}

// discovery merges the findings, and keeps at most maxURLs: those with the most clicks; of equals first those that were
// tracked before, because they have results; then by URL.
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

// pages returns all candidates by URL, and adds the sitemaps that they are in to d.
func (f findings) pages(d *sqlstore.Discovery) map[string]*page {
	pages := make(map[string]*page, len(f.found.URLs)+len(f.clicks))
	pageOf := func(url string) *page {
		p := pages[url]
		if p == nil {
			clicks, visited := f.clicks[url]
			p = &page{DiscoveredURL: sqlstore.DiscoveredURL{URL: url, Clicks: clicks}, visited: visited}
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
// It includes a sitemap that was not reached if another sitemap of the URL could not be read: that one may be the index file
// that names it.
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
