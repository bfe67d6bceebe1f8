package inspector

import (
	"context"
	"errors"
	"fmt"

	"sara/archive/sqlstore"
	"sara/proxy/jobs/sitemap"
	"sara/proxy/upstream"
	"sara/translate"
)

// A SitemapProblem explains why a sitemap was not read, or only in part.
type SitemapProblem struct {
	Path    string
	Problem string // for people
}

func (p SitemapProblem) String() string { return fmt.Sprintf("sitemap %s: %s", p.Path, p.Problem) }

// Discovered is the notice that discovery has finished.
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

// discover finds the URLs of a property and keeps those with the most clicks. If it fails, the tracked URLs stay as they are.
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
		return f, fmt.Errorf("list the sitemaps: %w", err)
	}
	paths := make([]string, len(f.listed))
	for i, s := range f.listed {
		paths[i] = s.Path
	}
	if f.found, err = r.config.Sitemaps.Read(ctx, scope, paths, max(minSitemapURLs, 2*p.MaxURLs)); err != nil {
		return f, err
	}
	days := r.trafficDays()
	result, err := r.config.History.Read(ctx, p.PropertyID, translate.ByPage, days, 0)
	if err != nil {
		return f, err
	}
	f.clicks, f.archived = clicksOf(result.Rows, scope), len(result.Missing) < days.Days()
	// The archive has the top pages of each day. The others are also ranked if the upstream answers; discovery does not depend on it.
	if rows, err := r.config.Gateway.Query(ctx, p.Target, translate.WideQuery(p.Site, translate.ByPage, days)); err == nil {
		f.live = clicksOf(rows, scope)
	}
	return f, context.Cause(ctx)
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
		if err := r.lost.Err(p.Target); err != nil {
			return err
		}
		listed, err = r.config.Gateway.Sitemaps(ctx, p.Target)
		r.lost.Note(p.Target, err)
		return err
	})
	return listed, err
}

// trafficDays returns the days whose clicks rank the pages.
func (r *run) trafficDays() translate.DateRange {
	const days = 28
	anchor := r.calendar.Anchor(r.config.Now())
	return translate.DateRange{Start: anchor - days + 1, End: anchor}
}

// clicksOf returns the clicks of pages; they may be zero.
func clicksOf(pages *translate.Rows, scope sitemap.Scope) map[string]int64 {
	clicks := make(map[string]int64, pages.Len())
	for i := range pages.Len() {
		if address, ok := scope.Clean(string(pages.Key(i))); ok {
			clicks[address] += pages.Metrics(i).Clicks
		}
	}
	return clicks
}
