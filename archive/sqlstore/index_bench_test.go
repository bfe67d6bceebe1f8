package sqlstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"sara/archive/sqlstore/pgtest"
	"sara/translate"
)

// BenchmarkIndexedURLs measures pages of a property, and of one a tenth of its size. SARA_BENCH_URLS sets its number of URLs,
// 2,000 by default: seeding 100,000, the service's limit, takes about ten seconds for each database.
func BenchmarkIndexedURLs(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchmarkIndexedURLs(b, "sqlite:"+filepath.Join(b.TempDir(), "sara.db")) })
	b.Run("postgres", func(b *testing.B) { benchmarkIndexedURLs(b, pgtest.Start(b).NewDatabase(b)) })
}

func benchmarkIndexedURLs(b *testing.B, url string) {
	size := 2000
	if set := os.Getenv("SARA_BENCH_URLS"); set != "" {
		size = value(strconv.Atoi(set))(b)
	}
	f := newFixture(b, url)
	f.acme()
	other, site := f.property("google", "sc-domain:other.example"), f.property("google", "sc-domain:example.com")
	seedURLs(f, other.ID, size/10)
	started := time.Now()
	seedURLs(f, site.ID, size)
	b.Logf("%d URLs are discovered, staged and published in %s", size, time.Since(started).Round(time.Millisecond))
	if f.dialect == postgresDialect { // autovacuum would do it later
		value(f.pools.jobs.ExecContext(f.ctx, "VACUUM ANALYZE"))(b)
	}
	measure := func(name string, q IndexQuery) {
		q.Limit = 500
		b.Run(name, func(b *testing.B) {
			var taken []time.Duration
			for b.Loop() {
				started := time.Now()
				value(f.IndexedURLs(f.ctx, site.ID, q))(b)
				taken = append(taken, time.Since(started))
			}
			// On a shared machine the mean is not meaningful.
			slices.Sort(taken)
			b.ReportMetric(float64(taken[0].Microseconds())/1000, "best-ms")
			b.ReportMetric(float64(taken[len(taken)/2].Microseconds())/1000, "median-ms")
		})
	}
	importance := translate.Order{By: "importance", Descending: true}
	for _, by := range []string{"importance", "url", "last_crawl_time", "last_inspected_at"} {
		for _, descending := range []bool{true, false} {
			order := translate.Order{By: by, Descending: descending}
			name := fmt.Sprintf("order=%s,descending=%t", by, descending)
			measure(name+"/first", IndexQuery{Order: order})
			measure(name+"/last", IndexQuery{Order: order, Offset: size - 500})
			measure(name+"/worst", IndexQuery{Order: order, Bucket: translate.BucketNotIndexed, CoverageState: "Page with redirect",
				SitemapPath: "https://example.com/sitemap.xml", Contains: "-", Offset: size / 8})
		}
	}
	for name, q := range map[string]IndexQuery{
		"bucket":           {Bucket: translate.BucketIndexed},
		"bucket,deep":      {Bucket: translate.BucketIndexed, Offset: size / 2},
		"rare bucket":      {Bucket: translate.BucketUnknown},
		"label":            {CoverageState: "Crawled – currently not indexed"},
		"no label":         {CoverageState: "nothing like it"},
		"sitemap":          {SitemapPath: "https://example.com/sitemap-3.xml"},
		"sitemap,deep":     {SitemapPath: "https://example.com/sitemap.xml", Offset: size / 2},
		"common part":      {Contains: "Example.com/Shop"},
		"common part,deep": {Contains: "Example.com/Shop", Offset: size - 500},
		"rare part":        {Contains: "-77"},
		"no such part":     {Contains: "100%_"},
		"all,first": {Bucket: translate.BucketIndexed, CoverageState: "Submitted and indexed",
			SitemapPath: "https://example.com/sitemap.xml", Contains: "shop"},
		"all,deep": {Bucket: translate.BucketIndexed, CoverageState: "Submitted and indexed",
			SitemapPath: "https://example.com/sitemap.xml", Contains: "shop", Offset: size / 3},
		"all,rare": {Bucket: translate.BucketError, CoverageState: "Soft 404", SitemapPath: "https://example.com/sitemap-3.xml", Contains: "-1"},
	} {
		q.Order = importance
		measure("filter="+name, q)
	}
	b.Run("IndexSummary", func(b *testing.B) {
		from := indexDay - 365
		for b.Loop() {
			value(f.IndexSummary(f.ctx, site.ID, &from))(b)
		}
	})
	b.Run("TrackedURLs", func(b *testing.B) {
		for b.Loop() {
			value(f.TrackedURLs(f.ctx, site.ID))(b)
		}
	})
}

// seedURLs adds published inspections to a property: most URLs in one of ten sitemaps and their index, a tenth with traffic, and
// labels distributed as in a large shop.
func seedURLs(f *fixture, propertyID string, n int) {
	f.t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	d := Discovery{At: f.time, Source: "sitemap", Sitemaps: []DiscoveredSitemap{{Path: "https://example.com/sitemap.xml"}}}
	for i := range 10 {
		d.Sitemaps = append(d.Sitemaps, DiscoveredSitemap{Path: fmt.Sprintf("https://example.com/sitemap-%d.xml", i)})
	}
	for i := range n {
		u := DiscoveredURL{URL: fmt.Sprintf("https://www.example.com/shop/category-%d/a-product-of-some-kind-%d", i%40, i)}
		if i%50 == 0 {
			u.URL += "?Ref=Mail"
		}
		if i%20 != 0 {
			u.Sitemaps = []int32{0, int32(1 + i%10)}
		}
		if random.IntN(10) == 0 {
			u.Clicks = int64(random.ExpFloat64() * 100)
		}
		d.URLs = append(d.URLs, u)
	}
	f.discover(propertyID, d)
	labels := []string{"Submitted and indexed", "Submitted and indexed", "Submitted and indexed", "Indexed, not submitted in sitemap",
		"Crawled - currently not indexed", "Discovered - currently not indexed", "Page with redirect", "Page with redirect",
		"Soft 404", "URL is unknown to Google"}
	var rows [][]any
	for _, u := range d.URLs {
		label := labels[random.IntN(len(labels))]
		if label == "URL is unknown to Google" && random.IntN(10) > 0 {
			label = "Submitted and indexed"
		}
		bucket, _ := translate.BucketOf(label)
		var crawl any
		if random.IntN(5) > 0 {
			crawl = f.time.Add(-time.Duration(random.IntN(1e7)) * time.Second).Unix()
		}
		rows = append(rows, []any{u.URL, bucket, label, crawl, f.time.Add(-time.Duration(random.IntN(50)) * 24 * time.Hour).Unix()})
	}
	stageAll(f, propertyID, rows)
	f.publish(propertyID)
}

// stageAll stages many inspections, one statement per batch.
func stageAll(f *fixture, propertyID string, rows [][]any) {
	f.t.Helper()
	tx := value(f.pools.jobs.BeginTx(f.ctx, nil))(f.t)
	number := value(one(f.ctx, tx, scalar[int32], "SELECT "+indexNumber, named{"property": propertyID}))(f.t)
	wantNil(f.t, tx.Rollback())
	labels := map[string]int32{}
	for _, r := range rows {
		label := r[2].(string)
		if _, known := labels[label]; !known {
			labels[label] = value(f.coverageLabel(f.ctx, label))(f.t)
		}
	}
	tx = value(f.pools.jobs.BeginTx(f.ctx, nil))(f.t)
	staged := make([][]any, len(rows))
	for i, r := range rows {
		staged[i] = []any{number, []byte(r[0].(string)), r[1], labels[r[2].(string)], "NEUTRAL", r[3], r[4]}
	}
	wantNil(f.t, eachBatch(staged, func(values string, args []any) error {
		_, err := tx.ExecContext(f.ctx, "INSERT INTO staged_inspections (number, url, bucket, label, verdict, crawled_at, inspected_at) VALUES "+
			values, args...)
		return err
	}))
	wantNil(f.t, tx.Commit())
}
