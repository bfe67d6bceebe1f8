package proxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/translate"
)

// The sitemaps of an indexed world: the third is an index of the first two.
const (
	sitemapProducts = "https://www.example.com/sitemap-products.xml"
	sitemapBlog     = "https://www.example.com/sitemap-blog.xml?a=1&b=%"
	sitemapIndex    = "https://www.example.com/sitemap_index.xml"
	sitemapEmpty    = "https://www.example.com/sitemap-old.xml"
)

// A page is a URL as the inspector stores it; one without a label has not been inspected.
type page struct {
	url, label, verdict string
	bucket              translate.Bucket
	clicks              int64
	crawled             *time.Time
	inspected           time.Time
	sitemaps            []string
}

// knownLabels are the labels that Search Console uses, by bucket, and some that it does not.
func knownLabels() map[translate.Bucket][]string {
	return map[translate.Bucket][]string{
		translate.BucketIndexed: {"Submitted and indexed", "Indexed, not submitted in sitemap", "Indexed, though blocked by robots.txt",
			"Indexed; consider marking as canonical", "Indexed, low interest"},
		translate.BucketNotIndexed: {"Crawled - currently not indexed", "Discovered - currently not indexed", "Alternate page with proper canonical tag",
			"Duplicate without user-selected canonical", "Duplicate, Google chose different canonical than user",
			"Duplicate, submitted URL not selected as canonical", "Excluded by ‘noindex’ tag", "Excluded by 'noindex' tag", "Page with redirect",
			"Blocked by page removal tool", "Blocked by robots.txt"},
		translate.BucketError: {"Soft 404", "Not found (404)", "Server error (5xx)", "Redirect error", "Blocked due to unauthorized request (401)",
			"Blocked due to access forbidden (403)", "Blocked due to other 4xx issue", "Submitted URL marked ‘noindex’", "Submitted URL not found (404)"},
		translate.BucketUnknown: {"URL is unknown to Google", "Gecrawlt – zurzeit nicht indexiert", "A label of tomorrow", ""},
	}
}

// pages returns URLs with all labels, with ties in every sort key, and with characters that a pattern could take for
// wildcards.
func (w *world) pages() []page {
	var pages []page
	for _, b := range translate.Buckets() {
		for i, label := range knownLabels()[b] {
			for j := range 3 {
				n := len(pages)
				p := page{label: label, bucket: b, verdict: []string{"PASS", "NEUTRAL", "FAIL"}[j], inspected: w.now().Add(-time.Duration(n%5) * time.Hour)}
				p.url = fmt.Sprintf("https://www.example.com/%s/%s%02d-%d", []string{"Blog", "products", "100%25_off"}[n%3],
					[]string{"a_b", "A%5Cb", "a%20b", "a%b"}[n%4], i, b)
				p.sitemaps = [][]string{{sitemapProducts, sitemapIndex}, {sitemapBlog, sitemapIndex}, {sitemapBlog, sitemapProducts, sitemapIndex}, nil}[n%4]
				if n%3 == 0 {
					p.clicks = int64(n % 7)
				}
				if n%4 != 1 {
					crawled := w.now().Add(-time.Duration(n%6) * 24 * time.Hour)
					p.crawled = &crawled
				}
				pages = append(pages, p)
			}
		}
	}
	for i := range 4 {
		pages = append(pages, page{url: fmt.Sprintf("https://www.example.com/new/%d", i), clicks: 1000, sitemaps: []string{sitemapBlog, sitemapIndex}})
	}
	return pages
}

// discover stores pages as the inspector does before it inspects any.
func (w *world) discover(property string, pages []page) {
	w.t.Helper()
	downloaded, pending := w.now().Add(-36*time.Hour), true
	warnings, errs := int64(3), int64(0)
	d := sqlstore.Discovery{At: w.now(), Source: "sitemap+performance", Sitemaps: []sqlstore.DiscoveredSitemap{
		{Path: sitemapProducts}, {Path: sitemapBlog, Problem: "it answers 404"},
		{Path: sitemapIndex, LastDownloaded: &downloaded, IsPending: &pending, Warnings: &warnings, Errors: &errs}, {Path: sitemapEmpty},
	}}
	for _, p := range pages {
		u := sqlstore.DiscoveredURL{URL: p.url, Clicks: p.clicks}
		for i, m := range d.Sitemaps {
			if slices.Contains(p.sitemaps, m.Path) {
				u.Sitemaps = append(u.Sitemaps, int32(i))
			}
		}
		d.URLs = append(d.URLs, u)
	}
	w.must(w.store.SaveDiscovery(context.Background(), w.properties[property].ID, d))
}

// inspect stores inspection results of pages, and optionally publishes them as of today.
func (w *world) inspect(property string, pages []page, publish bool) {
	w.t.Helper()
	ctx, id := context.Background(), w.properties[property].ID
	for _, p := range pages {
		if p.inspected.IsZero() {
			continue
		}
		w.must(w.store.StageInspection(ctx, id, sqlstore.Inspection{URL: p.url, CoverageState: p.label, Bucket: p.bucket, Verdict: p.verdict,
			LastCrawl: p.crawled, At: p.inspected}))
	}
	if publish {
		_, err := w.store.PublishInspections(ctx, id, w.server.calendar.Day(w.now()), w.now())
		w.must(err)
	}
}

// newIndexedWorld is a world whose main property is ready.
func newIndexedWorld(t testing.TB) (*world, []page) {
	t.Helper()
	w := newWorld(t)
	pages := w.pages()
	w.discover("main", pages)
	w.inspect("main", pages, true)
	return w, pages
}

// A urlFilter is a request to /indexing/urls, for the naive reference implementation.
type urlFilter struct {
	bucket, state, sitemap, q string
	sort, dir                 string
}

func (f urlFilter) query() []string {
	var query []string
	for _, pair := range [][2]string{{"bucket", f.bucket}, {"coverage_state", f.state}, {"sitemap_path", f.sitemap}, {"q", f.q},
		{"sort", f.sort}, {"dir", f.dir}} {
		if pair[1] != "" {
			query = append(query, pair[0], pair[1])
		}
	}
	return query
}

// of returns the matching pages, in order.
func (f urlFilter) of(pages []page) []page {
	var matching []page
	for _, p := range pages {
		if !p.inspected.IsZero() && (f.bucket == "" || p.bucket.String() == f.bucket) &&
			(f.state == "" || p.label == f.state) &&
			(f.sitemap == "" || slices.Contains(p.sitemaps, f.sitemap)) &&
			strings.Contains(strings.ToLower(p.url), strings.ReplaceAll(strings.ToLower(f.q), " ", "%20")) {
			matching = append(matching, p)
		}
	}
	descending := f.dir != "asc"
	directed := func(order int) int {
		if descending {
			return -order
		}
		return order
	}
	slices.SortFunc(matching, func(a, b page) int {
		byURL := strings.Compare(a.url, b.url)
		switch f.sort {
		case "url":
			return directed(byURL)
		case "last_inspected_at":
			return cmp.Or(directed(a.inspected.Compare(b.inspected)), byURL)
		case "last_crawl_time":
			switch {
			case a.crawled == nil && b.crawled == nil:
				return byURL
			case a.crawled == nil:
				return 1
			case b.crawled == nil:
				return -1
			}
			return cmp.Or(directed(a.crawled.Compare(*b.crawled)), byURL)
		}
		return cmp.Or(directed(cmp.Compare(a.clicks, b.clicks)), byURL)
	})
	return matching
}

// wantURLs requests a page of URLs, and compares it with the reference.
func (w *world) wantURLs(t *testing.T, f urlFilter, limit, offset int, pages []page) {
	t.Helper()
	query := f.query()
	if limit != 100 {
		query = append(query, "limit", fmt.Sprint(limit))
	}
	if offset != 0 {
		query = append(query, "offset", fmt.Sprint(offset))
	}
	r := w.get("pro", w.path("main", "/indexing/urls"), query...).ok(t)
	all := f.of(pages)
	want := all[min(offset, len(all)):min(offset+limit, len(all))]
	if m := r.meta(); m["total"] != float64(len(all)) || m["row_count"] != float64(len(want)) || m["limit"] != float64(limit) ||
		m["offset"] != float64(offset) {
		t.Errorf("%q: meta %v, want %d of %d", query, m, len(want), len(all))
	}
	if len(r.rows()) != len(want) || r.rows() == nil {
		t.Errorf("%q: %d rows, want %d", query, len(r.rows()), len(want))
		return
	}
	for i, p := range want {
		row := r.rows()[i].(map[string]any)
		var crawled any
		if p.crawled != nil {
			crawled = p.crawled.UTC().Format(time.RFC3339)
		}
		if row["url"] != p.url || row["coverage_state"] != p.label || row["verdict"] != p.verdict || row["last_crawl_time"] != crawled ||
			row["last_inspected_at"] != p.inspected.UTC().Format(time.RFC3339) {
			t.Errorf("%q: row %d is %v, want %+v", query, i, row, p)
			return
		}
	}
}
