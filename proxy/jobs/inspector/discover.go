package inspector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sara/proxy/jobs/sitemap"
	"sara/archive/sqlstore"
	"sara/translate"
)

// A SitemapProblem tells why a sitemap was not read, or not wholly.
type SitemapProblem struct {
	Path    string
	Problem string // for people
}

// discover finds the URLs of a property and keeps the important ones. What is tracked so far stays as it is after an error.
func (r *run) discover(ctx context.Context, t *task, tracked []sqlstore.TrackedURL) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("discover the URLs: %w", err)
		}
	}()
	p := t.Property
	scope, err := sitemap.ParseScope(p.Site)
	if err != nil {
		return err
	}
	f := findings{before: tracked}
	if f.listed, err = r.sitemaps(ctx, p); err != nil {
		return fmt.Errorf("ask which sitemaps there are: %w", err)
	}
	paths := make([]string, len(f.listed))
	for i, s := range f.listed {
		paths[i] = s.Path
	}
	if f.found, err = r.config.Sitemaps.Read(ctx, scope, paths, max(leastRead, 2*p.MaxURLs)); err != nil {
		return err
	}
	if f.clicks, f.collected, err = r.traffic(ctx, p, scope); err != nil {
		return err
	}
	d := f.discovery(p.MaxURLs)
	d.At = r.config.Now()
	for _, s := range d.Sitemaps {
		if s.Problem != "" {
			t.Problems = append(t.Problems, SitemapProblem{s.Path, s.Problem})
		}
	}
	defer func() { r.config.Progress.Discovered(p, t.URLs, t.Capped, t.Problems) }()
	if len(d.URLs) == 0 {
		if err := f.nothing(t.Problems); err != nil {
			return err
		}
	}
	if err := r.config.Store.SaveDiscovery(ctx, p.ID, d); err != nil {
		return err
	}
	t.URLs, t.Capped = len(d.URLs), d.Capped
	return nil
}

// nothing returns why it does not mean that there are no URLs that none were found; nil if it does.
func (f findings) nothing(problems []SitemapProblem) error {
	switch {
	case len(problems) > 0:
		return fmt.Errorf("no URLs are found, and the sitemap %s was not read: %s", problems[0].Path, problems[0].Problem)
	case len(f.before) > 0:
		return fmt.Errorf("no URLs are found any more: the %d that are tracked stay", len(f.before))
	case !f.collected:
		return errors.New("no URLs are found: the upstream lists no sitemaps, and no pages with traffic have been archived yet")
	}
	return nil
}

// sitemaps asks for the sitemaps of a property.
func (r *run) sitemaps(ctx context.Context, p Property) (listed []Sitemap, err error) {
	err = r.patiently(ctx, p, func() error {
		if err := r.connected(p); err != nil {
			return err
		}
		listed, err = r.config.Source.Sitemaps(ctx, p)
		r.heard(p, err)
		return err
	})
	return listed, err
}

// traffic returns the clicks of the pages that are archived with traffic, also those without a click, and whether any of the
// days is archived.
func (r *run) traffic(ctx context.Context, p Property, scope sitemap.Scope) (clicks map[string]int64, collected bool, err error) {
	if r.config.History == nil {
		return nil, false, nil
	}
	anchor := r.calendar.Anchor(r.config.Now())
	archived, err := r.config.History.Read(ctx, p.ID, translate.ByPage,
		translate.DateRange{Start: anchor - trafficDays + 1, End: anchor})
	if err != nil {
		return nil, false, err
	}
	pages := archived.Rows
	clicks = make(map[string]int64, pages.Len())
	for i := range pages.Len() {
		if address, ok := scope.Clean(string(pages.Key(i))); ok {
			clicks[address] += pages.Metrics(i).Clicks
		}
	}
	return clicks, len(archived.Missing) < trafficDays, nil
}

// findings are what is known of the URLs of a property.
type findings struct {
	listed []Sitemap             // as the upstream knows them
	found  sitemap.Found         // in them
	clicks map[string]int64      // of the pages with traffic
	before []sqlstore.TrackedURL // what was tracked so far

	collected bool // the archive knows of some day which pages had traffic
}

// A page is a URL that may be kept.
type page struct {
	sqlstore.DiscoveredURL
	tracked bool // so far
	visited bool // it had traffic
}

// discovery merges the findings, and keeps at most maxURLs: those with the most clicks; of equals those that were tracked so
// far, because the results that they have are worth more than a URL without; and the others by their names.
func (f findings) discovery(maxURLs int) sqlstore.Discovery {
	d := sqlstore.Discovery{Capped: f.found.Full}
	pages := slices.Collect(maps.Values(f.pages(&d)))
	slices.SortFunc(pages, func(a, b *page) int {
		return cmp.Or(cmp.Compare(b.Clicks, a.Clicks), first(a.tracked, b.tracked), cmp.Compare(a.URL, b.URL))
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

// first orders what is before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// pages returns all pages by URL, and puts the sitemaps that they are in into d.
func (f findings) pages(d *sqlstore.Discovery) map[string]*page {
	pages := make(map[string]*page, len(f.found.URLs)+len(f.clicks))
	at := func(url string) *page {
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
		p := at(u.Address)
		for _, file := range u.Files {
			p.Sitemaps = append(p.Sitemaps, s.index(f.found.Files[file].Path))
		}
	}
	for url := range f.clicks {
		at(url)
	}
	for _, u := range f.before {
		kept := s.stillIn(u)
		if p := pages[u.URL]; p != nil || len(kept) > 0 {
			p = at(u.URL)
			p.tracked = true
			p.Sitemaps = append(p.Sitemaps, kept...)
		}
	}
	for _, p := range pages {
		slices.Sort(p.Sitemaps)
		p.Sitemaps = slices.Compact(p.Sitemaps)
	}
	return pages
}

// sitemaps are those of a Discovery.
type sitemaps struct {
	*sqlstore.Discovery
	indexes map[string]int32        // by path
	met     map[string]sitemap.File // by path
	files   []sitemap.File          // that were met
}

// sitemaps puts what is known of the sitemaps into d.
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
		s.met[file.Path] = file
	}
	return s
}

// index returns the index of a sitemap, which is added if it is new.
func (s sitemaps) index(path string) int32 {
	i, ok := s.indexes[path]
	if !ok {
		i = int32(len(s.Sitemaps)) // #nosec G115 -- a reader follows some hundred files
		s.indexes[path] = i
		s.Sitemaps = append(s.Sitemaps, sqlstore.DiscoveredSitemap{Path: path})
	}
	return i
}

// unreached is the Problem of a sitemap that is known of before only.
const unreached = "not read: the index file that named it could not be read"

// stillIn returns the sitemaps that a URL has to be taken to be in still, because they could not be read, and those above
// them. A sitemap that was not even met belongs to them if another could not be read: that may be the index file which
// names it.
func (s sitemaps) stillIn(u sqlstore.TrackedURL) (still []int32) {
	if !slices.ContainsFunc(u.Sitemaps, func(path string) bool { return s.met[path].Problem != "" }) {
		return nil
	}
	for _, path := range u.Sitemaps {
		file, met := s.met[path]
		if met && file.Problem == "" {
			continue
		}
		i := s.index(path)
		if !met {
			s.Sitemaps[i].Problem = unreached
		}
		still = append(still, i)
		for _, above := range file.Above {
			still = append(still, s.index(s.files[above].Path))
		}
	}
	return still
}

// optional returns nil for an instant that there is none of.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
