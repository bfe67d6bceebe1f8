package sqlstore

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sara/translate"
)

// A coverageWorld is the expected state of a property, in memory.
type coverageWorld struct {
	random   *rand.Rand
	discover Discovery
	staged   map[string]Inspection
	results  map[string]Inspection
}

var worldLabels = []string{"Submitted and indexed", "Soft 404", "Page with redirect", "page  with Redirect", "Excluded by ‘noindex’ tag",
	"Excluded by 'noindex' tag", "URL is unknown to Google", "Something new"}

func newWorld(f *fixture, seed uint64) *coverageWorld {
	w := &coverageWorld{random: rand.New(rand.NewPCG(seed, 0)), staged: map[string]Inspection{}, results: map[string]Inspection{}}
	w.discover = Discovery{At: f.time, Sitemaps: []DiscoveredSitemap{{Path: "https://e.example/0"}, {Path: "https://e.example/1"},
		{Path: "https://e.example/2"}}}
	return w
}

// rediscover draws a new set of URLs, with ties, letters of both cases, and characters that are special in databases.
func (w *coverageWorld) rediscover(n int) Discovery {
	seen := map[string]bool{}
	w.discover.URLs = nil
	for range n {
		parts := []string{"https://e.example/"}
		for range 1 + w.random.IntN(4) {
			parts = append(parts, []string{"a", "B", "b", "%", "_", `\`, "'", "100%_", "%C3%BC", "%c3%9f", "Shop/", "shop/", "-", "z", "%20",
				"%7F"}[w.random.IntN(16)])
		}
		url := strings.Join(parts, "")
		if seen[url] {
			continue
		}
		seen[url] = true
		u := DiscoveredURL{URL: url, Clicks: int64(max(0, w.random.IntN(8)-4))}
		for m := range int32(3) {
			if w.random.IntN(3) == 0 {
				u.Sitemaps = append(u.Sitemaps, m)
			}
		}
		w.discover.URLs = append(w.discover.URLs, u)
	}
	for _, known := range []map[string]Inspection{w.results, w.staged} {
		for url := range known {
			if !seen[url] {
				delete(known, url)
			}
		}
	}
	return w.discover
}

// inspect draws inspections for a share of the URLs.
func (w *coverageWorld) inspect(at time.Time) (list []Inspection) {
	for _, u := range w.discover.URLs {
		if w.random.IntN(3) == 0 {
			continue
		}
		label := worldLabels[w.random.IntN(len(worldLabels))]
		bucket, _ := translate.BucketOf(label)
		i := Inspection{URL: u.URL, CoverageState: label, Bucket: bucket, Verdict: bucket.String(),
			At: at.Add(time.Duration(w.random.IntN(3)) * time.Second)}
		if w.random.IntN(4) > 0 {
			crawl := at.Add(-time.Duration(w.random.IntN(5)) * time.Hour)
			i.LastCrawl = &crawl
		}
		w.staged[u.URL] = i
		list = append(list, i)
	}
	return list
}

func (w *coverageWorld) publish() {
	maps.Copy(w.results, w.staged)
	clear(w.staged)
}

// page is a naive implementation of a query.
func (w *coverageWorld) page(q IndexQuery) (rows []Inspection, total int) {
	var found []DiscoveredURL
	for _, u := range w.discover.URLs {
		i, inspected := w.results[u.URL]
		in := slices.ContainsFunc(u.Sitemaps, func(m int32) bool { return w.discover.Sitemaps[m].Path == q.SitemapPath })
		part := strings.NewReplacer("ü", "%c3%bc", "ß", "%c3%9f", " ", "%20", "\x7f", "%7f").Replace(strings.ToLower(q.Contains))
		if inspected && (q.Bucket == 0 || q.Bucket == i.Bucket) && (q.SitemapPath == "" || in) &&
			(q.CoverageState == "" || q.CoverageState == i.CoverageState) &&
			strings.Contains(strings.ToLower(u.URL), part) {
			found = append(found, u)
		}
	}
	slices.SortFunc(found, func(a, b DiscoveredURL) int {
		by := w.compare(q.Order, a, b)
		if q.Order.By == "url" && q.Order.Descending {
			return by
		}
		return cmp.Or(by, strings.Compare(a.URL, b.URL))
	})
	rows = []Inspection{}
	for _, u := range found[min(q.Offset, len(found)):min(q.Offset+q.Limit, len(found))] {
		rows = append(rows, w.results[u.URL])
	}
	return rows, len(found)
}

func (w *coverageWorld) compare(o translate.Order, a, b DiscoveredURL) int {
	i, j := w.results[a.URL], w.results[b.URL]
	sign := 1
	if o.Descending {
		sign = -1
	}
	switch o.By {
	case "url":
		return sign * bytes.Compare([]byte(a.URL), []byte(b.URL))
	case "importance":
		return sign * cmp.Compare(a.Clicks, b.Clicks)
	case "last_inspected_at":
		return sign * i.At.Compare(j.At)
	}
	switch {
	case i.LastCrawl == nil && j.LastCrawl == nil:
		return 0
	case i.LastCrawl == nil:
		return 1
	case j.LastCrawl == nil:
		return -1
	}
	return sign * i.LastCrawl.Compare(*j.LastCrawl)
}

func allOrders() (orders []translate.Order) {
	for _, by := range []string{"importance", "url", "last_crawl_time", "last_inspected_at"} {
		orders = append(orders, translate.Order{By: by}, translate.Order{By: by, Descending: true})
	}
	return orders
}

// query draws a query that has each filter with a probability of one half.
func (w *coverageWorld) query(order translate.Order) IndexQuery {
	q := IndexQuery{Order: order, Limit: 1 + w.random.IntN(30), Offset: max(0, w.random.IntN(400)-200)}
	some := func(values ...string) string { return values[w.random.IntN(len(values))] }
	if w.random.IntN(2) == 0 {
		q.Bucket = translate.Buckets()[w.random.IntN(4)]
	}
	if w.random.IntN(2) == 0 {
		q.CoverageState = some(append(worldLabels, "PAGE WITH REDIRECT", "never heard of")...)
	}
	if w.random.IntN(2) == 0 {
		q.SitemapPath = some("https://e.example/0", "https://e.example/1", "https://e.example/2", "https://e.example/3")
	}
	if w.random.IntN(2) == 0 {
		q.Contains = some("a", "B", "%", "_", `\`, "'", "100%_", "ü", "ß", "%C3%bc", "SHOP/", "//E.", "%_%", "nothing", "-z", " ", "\x7f", "\x00", "\xff")
	}
	return q
}

func (f *fixture) agrees(w *coverageWorld, propertyID string, q IndexQuery) {
	f.t.Helper()
	rows, total := w.page(q)
	page := value(f.IndexedURLs(f.ctx, propertyID, q))(f.t)
	if page.Total != total || page.Inspected != len(w.results) || !slices.EqualFunc(page.Rows, rows, sameResult) {
		f.t.Fatalf("%+v: %d of %d\n%+v\nwant %d of %d\n%+v", q, page.Total, page.Inspected, page.Rows, total, len(w.results), rows)
	}
}

func sameResult(a, b Inspection) bool {
	return fmt.Sprint(a.URL, a.Bucket, a.CoverageState, a.Verdict, a.At) == fmt.Sprint(b.URL, b.Bucket, b.CoverageState, b.Verdict, b.At) &&
		(a.LastCrawl == nil) == (b.LastCrawl == nil) && (a.LastCrawl == nil || a.LastCrawl.Equal(*b.LastCrawl))
}

// Every order and all kinds of filters, while URLs, sitemaps, clicks and inspections change.
func testIndexedURLs(t *testing.T, f *fixture) {
	site := f.indexed()
	other := f.property("google", "sc-domain:other.example")
	worlds := map[string]*coverageWorld{site.ID: newWorld(f, 1), other.ID: newWorld(f, 2)}
	for round := range 2 {
		for id, w := range worlds {
			f.discover(id, w.rediscover(300))
			for _, i := range w.inspect(f.time.Add(time.Duration(round) * time.Hour)) {
				wantNil(t, f.StageInspection(f.ctx, id, i))
			}
			f.agrees(w, id, byURL(500)) // staged inspections are not visible
			f.publish(id)
			w.publish()
		}
		for id, w := range worlds {
			for _, order := range allOrders() {
				f.agrees(w, id, IndexQuery{Order: order, Limit: 500})
				for range 8 {
					f.agrees(w, id, w.query(order))
				}
			}
		}
	}
}

// Successive pages add up to the whole list, whatever inspections are staged in between.
func testStablePages(t *testing.T, f *fixture) {
	site, w := f.indexed(), newWorld(f, 3)
	f.discover(site.ID, w.rediscover(200))
	stage := func(n int, at time.Time) {
		t.Helper()
		for _, i := range w.inspect(at)[:n] {
			wantNil(t, f.StageInspection(f.ctx, site.ID, i))
		}
	}
	stage(40, f.time)
	f.publish(site.ID)
	for _, order := range allOrders() {
		whole := value(f.IndexedURLs(f.ctx, site.ID, IndexQuery{Order: order, Limit: 500}))(t)
		var paged []Inspection
		for len(paged) < whole.Total {
			page := value(f.IndexedURLs(f.ctx, site.ID, IndexQuery{Order: order, Limit: 13, Offset: len(paged)}))(t)
			equal(t, page.Total, whole.Total)
			if len(page.Rows) == 0 {
				t.Fatalf("%v ends after %d of %d", order, len(paged), whole.Total)
			}
			paged = append(paged, page.Rows...)
			stage(4, f.time.Add(time.Hour))
		}
		equal(t, paged, whole.Rows)
	}
	if f.publish(site.ID) == 0 {
		t.Error("nothing was staged meanwhile")
	}
}

// A read during a publication is consistent: all its parts are from before it, or all from after it.
func testPublishingReaders(t *testing.T, f *fixture) {
	site := f.indexed()
	urls := numbered("https://example.com/%d", 20)
	f.discover(site.ID, Discovery{URLs: urlsOf(urls...)})
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 4 { // so that publications fall between the two statements of a page
		q := byURL(500)
		q.Contains, q.Bucket = []string{"", "example"}[i%2], translate.BucketError
		readers.Go(func() {
			for reading := true; reading; {
				select {
				case <-stop:
					reading = false
				default:
				}
				page, err := f.IndexedURLs(f.ctx, site.ID, q)
				if err != nil || page.Total != len(page.Rows) || page.Total != 0 && page.Total != len(urls) {
					t.Errorf("%d rows of %d: %v", len(page.Rows), page.Total, err)
				}
				summary, err := f.IndexSummary(f.ctx, site.ID, nil)
				if err != nil || len(summary.Coverage) > 1 || len(summary.Coverage) == 1 && summary.Coverage[0].Count != len(urls) {
					t.Errorf("%+v of %d URLs: %v", summary.Coverage, len(urls), err)
				}
			}
		})
	}
	for i := range 12 {
		f.inspect(site.ID, worldLabels[i%2], urls...) // all of them indexed, or none
		f.publish(site.ID)
	}
	close(stop)
	readers.Wait()
}

// Inspections that are staged during a publication are not lost.
func testStagingRace(t *testing.T, f *fixture) {
	site := f.indexed()
	urls := numbered("https://example.com/%d", 60)
	f.discover(site.ID, Discovery{URLs: urlsOf(urls...)})
	var staging sync.WaitGroup
	for i := range 3 {
		staging.Go(func() {
			for _, url := range urls[i*20 : i*20+20] {
				i := Inspection{URL: url, CoverageState: worldLabels[i], Bucket: translate.BucketError, At: f.time}
				if err := f.StageInspection(f.ctx, site.ID, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	published := 0
	for range 10 {
		published += f.publish(site.ID)
	}
	staging.Wait()
	published += f.publish(site.ID)
	equal(t, published, len(urls))
	equal(t, value(f.IndexedURLs(f.ctx, site.ID, byURL(500)))(t).Total, len(urls))
}
