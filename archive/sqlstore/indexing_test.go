package sqlstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/translate"
)

// indexed returns a property without an index state.
func (f *fixture) indexed() Property {
	f.t.Helper()
	f.acme()
	return f.property("google", "sc-domain:example.com")
}

func (f *fixture) discover(propertyID string, d Discovery) {
	f.t.Helper()
	if d.At.IsZero() {
		d.At = f.time
	}
	wantNil(f.t, f.SaveDiscovery(f.ctx, propertyID, d))
}

// inspect stages inspections with a label for URLs.
func (f *fixture) inspect(propertyID, label string, urls ...string) {
	f.t.Helper()
	bucket, _ := translate.BucketOf(label)
	for _, url := range urls {
		wantNil(f.t, f.StageInspection(f.ctx, propertyID, Inspection{URL: url, CoverageState: label, Bucket: bucket, Verdict: "NEUTRAL", At: f.time}))
	}
}

const indexDay = translate.Date(20778) // 2026-11-21

func (f *fixture) publish(propertyID string) int {
	f.t.Helper()
	return value(f.PublishInspections(f.ctx, propertyID, indexDay, f.time))(f.t)
}

func urlsOf(urls ...string) (found []DiscoveredURL) {
	for _, url := range urls {
		found = append(found, DiscoveredURL{URL: url})
	}
	return found
}

func byURL(limit int) IndexQuery {
	return IndexQuery{Order: translate.Order{By: "url"}, Limit: limit}
}

func urlNames(rows []Inspection) []string {
	return names(rows, func(u Inspection) string { return u.URL })
}

// indexState returns the index state of a property.
func (f *fixture) indexState(id string) IndexState {
	f.t.Helper()
	p, exists, err := f.InspectableProperty(f.ctx, id)
	wantNil(f.t, err)
	equal(f.t, exists, true)
	return p.Index
}

func testIndexState(t *testing.T, f *fixture) {
	site := f.indexed()
	equal(t, f.indexState(site.ID), IndexState{PropertyID: site.ID})
	page := value(f.IndexedURLs(f.ctx, site.ID, byURL(10)))(t)
	equal(t, page, IndexedPage{State: IndexState{PropertyID: site.ID}, Rows: []Inspection{}})
	equal(t, value(f.TrackedURLs(f.ctx, site.ID))(t), []TrackedURL{})

	generation := f.Generation()
	at, until := f.time, f.time.Add(time.Hour)
	run := IndexState{PropertyID: site.ID, InspectedAt: &at, CooldownUntil: &until, Failures: 3, Note: "over quota"}
	wantNil(t, f.SaveIndexRun(f.ctx, run))
	equal(t, f.indexState(site.ID), run)
	wantNil(t, f.SaveIndexRun(f.ctx, IndexState{PropertyID: site.ID, Note: "not\x00 \xff text", Source: "is not saved"}))
	equal(t, f.indexState(site.ID), IndexState{PropertyID: site.ID, Note: "not \uFFFD text"})

	f.discover(site.ID, Discovery{Source: "sitemap", Capped: true, URLs: urlsOf("https://example.com/a", "https://example.com/b")})
	want := IndexState{PropertyID: site.ID, DiscoveredAt: &at, Source: "sitemap", URLs: 2, Capped: true, Note: "not \uFFFD text"}
	equal(t, f.indexState(site.ID), want)
	equal(t, f.publish(site.ID), 0)
	want.RefreshedAt = &at
	equal(t, f.indexState(site.ID), want)
	inspectable := InspectableProperty{Property: site, Plan: "pro", Index: want}
	equal(t, value(f.InspectableProperties(f.ctx))(t), []InspectableProperty{inspectable})
	one, exists, err := f.InspectableProperty(f.ctx, site.ID)
	wantNil(t, err)
	equal(t, one, inspectable)
	equal(t, exists, true)
	_, exists, err = f.InspectableProperty(f.ctx, "removed")
	wantNil(t, err)
	equal(t, exists, false)
	equal(t, f.Generation(), generation)

	for what, err := range map[string]error{
		"a run":       f.SaveIndexRun(f.ctx, IndexState{PropertyID: "unknown"}),
		"a discovery": f.SaveDiscovery(f.ctx, "unknown", Discovery{At: at}),
		"a day":       f.SaveIndexDay(f.ctx, "unknown", IndexDay{}),
		"inspections": second(f.PublishInspections(f.ctx, "unknown", indexDay, at)),
	} {
		if !errors.As(err, new(*NotFoundError)) {
			t.Errorf("%s of a property that does not exist: %v", what, err)
		}
	}
}

func testDiscovery(t *testing.T, f *fixture) {
	site := f.indexed()
	other := f.property("google", "sc-domain:other.example")
	f.discover(other.ID, Discovery{Source: "sitemap", Sitemaps: []DiscoveredSitemap{{Path: "https://other.example/s.xml"}},
		URLs: []DiscoveredURL{{URL: "https://example.com/a", Clicks: 7, Sitemaps: []int32{0}}}})
	f.inspect(other.ID, "Soft 404", "https://example.com/a")

	yes, warnings := true, int64(3)
	last := f.time.Add(-time.Hour)
	index := DiscoveredSitemap{Path: "https://example.com/index.xml", LastDownloaded: &last, IsPending: &yes, Warnings: &warnings, Errors: new(int64)}
	first := DiscoveredSitemap{Path: "https://example.com/first.xml"}
	second := DiscoveredSitemap{Path: "https://example.com/Second.xml", Problem: "it is gone"}
	f.discover(site.ID, Discovery{Sitemaps: []DiscoveredSitemap{index, first, second}, URLs: []DiscoveredURL{
		{URL: "https://example.com/b", Clicks: 5, Sitemaps: []int32{0, 1}},
		{URL: "https://example.com/a", Clicks: 1, Sitemaps: []int32{0, 2}},
		{URL: "https://example.com/c"},
		{URL: "https://example.com/gone", Sitemaps: []int32{0, 1}},
	}})
	equal(t, value(f.TrackedURLs(f.ctx, site.ID))(t), []TrackedURL{
		{URL: "https://example.com/a", Clicks: 1, Sitemaps: []string{second.Path, index.Path}},
		{URL: "https://example.com/b", Clicks: 5, Sitemaps: []string{first.Path, index.Path}},
		{URL: "https://example.com/c"},
		{URL: "https://example.com/gone", Sitemaps: []string{first.Path, index.Path}},
	})
	f.inspect(site.ID, "Soft 404", "https://example.com/a", "https://example.com/gone")
	f.publish(site.ID)
	f.inspect(site.ID, "Page with redirect", "https://example.com/b", "https://example.com/gone")

	// The sitemaps in a different order, one removed; one URL added, one removed; and other clicks.
	first.Problem, index.IsPending = "too large", nil
	f.discover(site.ID, Discovery{Sitemaps: []DiscoveredSitemap{first, index}, URLs: []DiscoveredURL{
		{URL: "https://example.com/a", Clicks: 2, Sitemaps: []int32{1}},
		{URL: "https://example.com/b", Clicks: 5, Sitemaps: []int32{0, 1}},
		{URL: "https://example.com/c", Sitemaps: []int32{0}},
		{URL: "https://example.com/d"},
	}})
	equal(t, value(f.TrackedURLs(f.ctx, site.ID))(t), []TrackedURL{
		{URL: "https://example.com/a", Clicks: 2, Sitemaps: []string{index.Path}, InspectedAt: &f.time},
		{URL: "https://example.com/b", Clicks: 5, Sitemaps: []string{first.Path, index.Path}, InspectedAt: &f.time},
		{URL: "https://example.com/c", Sitemaps: []string{first.Path}},
		{URL: "https://example.com/d"},
	})
	summary := value(f.IndexSummary(f.ctx, site.ID, nil))(t)
	equal(t, summary.Coverage, []CoverageCount{{"Soft 404", translate.BucketError, 1}})
	equal(t, summary.Sitemaps, []SitemapRollup{
		{DiscoveredSitemap: first, URLs: 2},
		{DiscoveredSitemap: index, URLs: 2, Inspected: 1, NotIndexed: 1},
	})
	equal(t, f.publish(site.ID), 1)
	equal(t, urlNames(value(f.IndexedURLs(f.ctx, site.ID, byURL(10)))(t).Rows), []string{"https://example.com/a", "https://example.com/b"})

	// A URL that returns does not get its old inspection back.
	f.discover(site.ID, Discovery{URLs: urlsOf("https://example.com/gone")})
	f.publish(site.ID)
	equal(t, value(f.TrackedURLs(f.ctx, site.ID))(t), []TrackedURL{{URL: "https://example.com/gone"}})
	f.discover(site.ID, Discovery{})
	equal(t, value(f.IndexSummary(f.ctx, site.ID, nil))(t).Sitemaps, []SitemapRollup{})

	equal(t, f.publish(other.ID), 1)
	equal(t, value(f.IndexSummary(f.ctx, other.ID, nil))(t).Sitemaps, []SitemapRollup{
		{DiscoveredSitemap: DiscoveredSitemap{Path: "https://other.example/s.xml"}, URLs: 1, Inspected: 1, NotIndexed: 1}})
}

func testDiscoveryRefusals(t *testing.T, f *fixture) {
	site := f.indexed()
	f.discover(site.ID, Discovery{URLs: urlsOf("https://example.com/")})
	for what, urls := range map[string][]DiscoveredURL{
		"an empty URL":     urlsOf(""),
		"a long URL":       urlsOf("https://example.com/" + strings.Repeat("a", 2029)),
		"a URL in Unicode": urlsOf("https://example.com/ü"),
		"a space":          urlsOf("https://example.com/ "),
		"the same twice":   urlsOf("https://example.com/a", "https://example.com/a"),
	} {
		t.Run(what, func(t *testing.T) {
			refused[*InputError](t, f.SaveDiscovery(f.ctx, site.ID, Discovery{At: f.time, URLs: urls}))
		})
	}
	equal(t, value(f.TrackedURLs(f.ctx, site.ID))(t), []TrackedURL{{URL: "https://example.com/"}})
}

// A label that was truncated or cleaned can be found by its stored form.
func testOddLabels(t *testing.T, f *fixture) {
	f.acme()
	site := f.property("google", "sc-domain:example.com")
	f.discover(site.ID, Discovery{URLs: urlsOf("https://example.com/long", "https://example.com/broken", "https://example.com/spaced")})
	f.inspect(site.ID, strings.Repeat("Long ", 100), "https://example.com/long")
	f.inspect(site.ID, "A\x00B\xff", "https://example.com/broken")
	f.inspect(site.ID, "A  label – with ‘quotes’", "https://example.com/spaced")
	f.publish(site.ID)
	for _, c := range value(f.IndexSummary(f.ctx, site.ID, nil))(t).Coverage {
		page := value(f.IndexedURLs(f.ctx, site.ID, IndexQuery{CoverageState: c.CoverageState, Order: translate.Order{By: "url"}, Limit: 10}))(t)
		if page.Total != 1 || len(page.Rows) != 1 || page.Rows[0].CoverageState != c.CoverageState {
			t.Errorf("%q is counted %d times and lists %+v", c.CoverageState, c.Count, page.Rows)
		}
	}
}

// The longest URLs fit into the indexes, and a case-insensitive search finds them.
func testLongURLs(t *testing.T, f *fixture) {
	site := f.indexed()
	random := rand.New(rand.NewPCG(1, 2))
	long := "https://example.com/"
	for len(long) < maxURL-3 { // random, so no database can compress it
		long += string("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYabcdefghijklmnopqrstuvwxy-_"[random.IntN(62)])
	}
	long += "Zzq"
	f.discover(site.ID, Discovery{URLs: urlsOf("https://example.com/zZq", long, strings.ToLower(long), long[:1250])})
	f.inspect(site.ID, "Soft 404", "https://example.com/zZq", long, strings.ToLower(long), long[:1250])
	f.publish(site.ID)
	for _, contains := range []string{"zzq", "ZZQ", long[1000:1100]} {
		q := byURL(10)
		q.Contains = contains
		page := value(f.IndexedURLs(f.ctx, site.ID, q))(t)
		want := []string{long, strings.ToLower(long), "https://example.com/zZq"}
		if len(contains) > 3 {
			want = []string{long[:1250], long, strings.ToLower(long)}
		}
		slices.Sort(want)
		equal(t, urlNames(page.Rows), want)
		equal(t, page.Total, len(want))
	}
}

func testStaging(t *testing.T, f *fixture) {
	site := f.indexed()
	f.discover(site.ID, Discovery{URLs: urlsOf("https://example.com/a", "https://example.com/b")})
	crawl, at := f.time.Add(-time.Hour+time.Millisecond), f.time.Add(time.Millisecond)
	stage := func(i Inspection) {
		t.Helper()
		wantNil(t, f.StageInspection(f.ctx, site.ID, i))
	}
	stage(Inspection{URL: "https://example.com/a", CoverageState: "Soft 404", Bucket: translate.BucketError, Verdict: "FAIL", At: at.Add(-time.Hour)})
	stage(Inspection{URL: "https://example.com/a", CoverageState: "Submitted and indexed", Bucket: translate.BucketIndexed,
		Verdict: "PASS", LastCrawl: &crawl, At: at})
	stage(Inspection{URL: "https://example.com/unknown", CoverageState: "Soft 404", Bucket: translate.BucketError, At: at})
	refused[*InputError](t, f.StageInspection(f.ctx, site.ID, Inspection{URL: "https://example.com/b", At: at}))
	equal(t, value(f.IndexedURLs(f.ctx, site.ID, byURL(10)))(t).Rows, []Inspection{})
	equal(t, value(f.TrackedURLs(f.ctx, site.ID))(t), []TrackedURL{
		{URL: "https://example.com/a", InspectedAt: &f.time}, {URL: "https://example.com/b"}})

	equal(t, f.publish(site.ID), 1)
	crawl = crawl.Truncate(time.Second)
	want := []Inspection{{URL: "https://example.com/a", CoverageState: "Submitted and indexed", Bucket: translate.BucketIndexed,
		Verdict: "PASS", LastCrawl: &crawl, At: f.time}}
	for range 2 {
		page := value(f.IndexedURLs(f.ctx, site.ID, byURL(10)))(t)
		equal(t, page.Rows, want)
		equal(t, page.Inspected, 1)
		equal(t, f.publish(site.ID), 0)
	}
	// A later inspection replaces the earlier one completely.
	stage(Inspection{URL: "https://example.com/a", CoverageState: "", Bucket: translate.BucketUnknown, At: at.Add(time.Hour)})
	equal(t, f.publish(site.ID), 1)
	equal(t, value(f.IndexedURLs(f.ctx, site.ID, byURL(10)))(t).Rows, []Inspection{
		{URL: "https://example.com/a", Bucket: translate.BucketUnknown, At: f.time.Add(time.Hour)}})
}

func testIndexSummary(t *testing.T, f *fixture) {
	site := f.indexed()
	equal(t, value(f.IndexSummary(f.ctx, site.ID, nil))(t), IndexSummary{State: IndexState{PropertyID: site.ID},
		Coverage: []CoverageCount{}, Sitemaps: []SitemapRollup{}})
	from := indexDay - 2
	all := numbered("https://example.com/%d", 9)
	f.discover(site.ID, Discovery{URLs: urlsOf(all...)})
	f.inspect(site.ID, "Submitted and indexed", all[0], all[1])
	f.inspect(site.ID, "Page with redirect", all[2])
	f.inspect(site.ID, "Page  with redirect", all[3])
	f.inspect(site.ID, "Blocked by robots.txt", all[4])
	f.inspect(site.ID, "Soft 404", all[5])
	f.inspect(site.ID, "URL is unknown to Google", all[6])
	f.inspect(site.ID, "Something new", all[7])
	f.publish(site.ID)
	early := IndexDay{Date: from - 1, URLs: 5, Indexed: 1, NotIndexed: 1, Error: 1, Unknown: 1}
	kept := IndexDay{Date: from, URLs: 6, Indexed: 2}
	for _, d := range []IndexDay{kept, early, {Date: from, URLs: 1}, kept} {
		wantNil(t, f.SaveIndexDay(f.ctx, site.ID, d))
	}
	summary := value(f.IndexSummary(f.ctx, site.ID, &from))(t)
	equal(t, summary.Coverage, []CoverageCount{
		{"Submitted and indexed", translate.BucketIndexed, 2},
		{"Blocked by robots.txt", translate.BucketNotIndexed, 1},
		{"Page  with redirect", translate.BucketNotIndexed, 1},
		{"Page with redirect", translate.BucketNotIndexed, 1},
		{"Soft 404", translate.BucketError, 1},
		{"Something new", translate.BucketUnknown, 1},
		{"URL is unknown to Google", translate.BucketUnknown, 1},
	})
	equal(t, summary.Trend, []IndexDay{kept, {Date: indexDay, URLs: 9, Indexed: 2, NotIndexed: 3, Error: 1, Unknown: 2}})
	equal(t, value(f.IndexSummary(f.ctx, site.ID, nil))(t).Trend, []IndexDay(nil))

	// The day is written even if nothing is staged, and if no URL is tracked.
	f.discover(site.ID, Discovery{})
	equal(t, f.publish(site.ID), 0)
	equal(t, value(f.IndexSummary(f.ctx, site.ID, &from))(t).Trend, []IndexDay{kept, {Date: indexDay}})
}

// A publication deletes the oldest days of its property beyond those that are kept, whatever the clock shows.
func testIndexDaysAreBounded(t *testing.T, f *fixture) {
	site := f.indexed()
	other := f.property(site.Connection.ID, "sc-domain:other.example")
	f.discover(site.ID, Discovery{URLs: urlsOf(numbered("https://example.com/%d", 1)...)})
	const more = 3
	for n := range translate.Date(keptIndexDays + more) {
		wantNil(t, f.SaveIndexDay(f.ctx, site.ID, IndexDay{Date: indexDay - 1 - n, URLs: 1}))
	}
	wantNil(t, f.SaveIndexDay(f.ctx, other.ID, IndexDay{Date: indexDay - 5000, URLs: 1}))
	f.publish(site.ID)
	always := translate.Date(0)
	trend := value(f.IndexSummary(f.ctx, site.ID, &always))(t).Trend
	if first := trend[0].Date; len(trend) != keptIndexDays || first != indexDay-keptIndexDays+1 {
		t.Errorf("%d days from %s on are kept", len(trend), first)
	}
	equal(t, len(value(f.IndexSummary(f.ctx, other.ID, &always))(t).Trend), 1)
}

func testTakeInspection(t *testing.T, f *fixture) {
	take := func(site string, day translate.Date, limit int, want bool) {
		t.Helper()
		if got := value(f.TakeInspection(f.ctx, site, day, limit))(t); got != want {
			t.Errorf("take one of %d for %s on %s: %t", limit, site, day, got)
		}
	}
	take("a", indexDay, 0, false)
	take("a", indexDay, 2, true)
	take("a", indexDay, 2, true)
	take("a", indexDay, 2, false)
	take("a", indexDay, 3, true)
	take("b", indexDay, 1, true)
	for _, c := range []struct {
		least, most int
		want        []SiteInspections
		total       int
	}{{1, 2, []SiteInspections{{"a", 3}, {"b", 1}}, 2}, {1, 1, []SiteInspections{{"a", 3}}, 2}, {2, 9, []SiteInspections{{"a", 3}}, 1}, {4, 9, nil, 0}} {
		first, total, err := f.TakenInspections(f.ctx, indexDay, c.least, c.most)
		wantNil(t, err)
		equal(t, first, c.want)
		equal(t, total, c.total)
	}
	take("a", indexDay+1, 1, true)
	take("a", indexDay, 3, false) // yesterday's count is kept
	take("a", indexDay+2, 1, true)
	equal(t, value(all(f.ctx, f.changes, scalar[int], "SELECT day FROM inspection_counts ORDER BY day"))(t), []int{int(indexDay + 1), int(indexDay + 2)})
}

func testTakeInspectionRace(t *testing.T, f *fixture) {
	const takers, each, limit = 6, 4, 13
	granted := make(chan bool, takers*each)
	for range takers {
		s := f.open(nil)
		go func() {
			for range each {
				ok, err := s.TakeInspection(f.ctx, "a", indexDay, limit)
				if err != nil {
					t.Error(err)
				}
				granted <- ok
			}
		}()
	}
	n := 0
	for range takers * each {
		if <-granted {
			n++
		}
	}
	equal(t, n, limit)
}

func testIndexedURLsRefusals(t *testing.T, f *fixture) {
	site := f.indexed()
	_, err := f.IndexedURLs(f.ctx, site.ID, IndexQuery{Order: translate.Order{By: "clicks"}, Limit: 1})
	refused[*InputError](t, err)
	done, cancel := context.WithCancel(f.ctx)
	cancel()
	if _, err := f.IndexedURLs(done, site.ID, byURL(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a page without time: %v", err)
	}
}
