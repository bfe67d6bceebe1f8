package openapi

import "sara/translate"

// The states of an indexing collection (spec: States and transitions). Only the last one has results to count.
const (
	PendingDiscovery  = "pending_discovery"
	PendingInspection = "pending_inspection"
	IndexReady        = "ready"
)

func indexingSchema() schema {
	return object(
		member{name: "status", schema: text("How far collecting has come; before ready nothing is known, which does not mean that nothing is indexed.").
			with("enum", []string{PendingDiscovery, PendingInspection, IndexReady}).like(IndexReady)},
		member{name: "discovery_source",
			schema: text("What the URLs were found in: sitemaps, pages with search traffic, or both; null while there are none.").
				with("enum", []string{"sitemap", "performance", "sitemap+performance"}).named("DiscoverySource").orNull()},
		member{name: "url_count", schema: whole("URLs that are tracked; 0 before discovery.").like(301)},
		member{name: "urls_capped", schema: boolean("Whether there are more, which the plan does not inspect; false before discovery.")},
		member{name: "last_refreshed_at", schema: instant("When results were last brought up to date; null before the first.").orNull()},
		member{name: "totals", schema: object(
			member{name: "total_urls", schema: whole("URLs that are tracked; 0 before discovery.").like(301)},
			member{name: "inspected_urls", schema: whole("Those with a result.").like(301)},
			member{name: "indexed", schema: whole("Those of the bucket indexed; 0 until the status is ready.").like(196)},
			member{name: "not_indexed", schema: whole("Those of the buckets not_indexed and error; 0 until the status is ready.").like(90)}).
			named("IndexingTotals")},
		member{name: "breakdown", schema: listOf(object(
			coverageMember(),
			member{name: "bucket", schema: bucketSchema()},
			member{name: "count", schema: whole("Inspected URLs with this label.").like(172)}).
			named("CoverageCount")).with("description", "Most first.")},
		member{name: "sitemaps", schema: listOf(sitemapSchema()).with("description", "By path.")},
		member{name: "trend", schema: schema{"type": []any{"array", "null"}, "items": trendSchema(),
			"description": "A row for each day on which results were brought up to date, by date; null unless include_trend=true."}}).named("Indexing")
}

func bucketSchema() schema {
	names := make([]string, 0, len(translate.Buckets()))
	for _, b := range translate.Buckets() {
		names = append(names, b.String())
	}
	return text("What the label means in one word.").with("enum", names).named("Bucket")
}

func coverageMember() member {
	return member{name: "coverage_state", schema: text("Search Console's own label.").like("Submitted and indexed")}
}

func sitemapSchema() schema {
	return object(
		member{name: "path", schema: text("The sitemap's address, which the parameter sitemap_path takes.").like("https://www.example.com/sitemap.xml")},
		member{name: "total_urls", schema: whole("Tracked URLs that it lists, by itself or through sitemaps that it names.")},
		member{name: "inspected_urls", schema: whole("Those with a result.")},
		member{name: "indexed", schema: whole("Those of the bucket indexed; 0 while inspected_urls is 0.")},
		member{name: "not_indexed", schema: whole("Those of the buckets not_indexed and error; 0 while inspected_urls is 0.")},
		member{name: "last_downloaded",
			schema: instant("When Google last read it; null when it never did, or does not list the sitemap itself.").orNull()},
		member{name: "is_pending", schema: boolean("Whether Google has yet to process it; null when it does not list the sitemap itself.").orNull()},
		member{name: "warnings", schema: whole("Search Console's count; null when it does not list the sitemap itself.").orNull()},
		member{name: "errors", schema: whole("Search Console's count; null when it does not list the sitemap itself.").orNull()}).named("Sitemap")
}

func trendSchema() schema {
	return object(
		member{name: "date", schema: day("The day.")},
		member{name: "total_urls", schema: whole("URLs that were tracked.")},
		member{name: "indexed", schema: whole("Inspected URLs of this bucket.")},
		member{name: "not_indexed", schema: whole("Inspected URLs of this bucket.")},
		member{name: "error", schema: whole("Inspected URLs of this bucket.")},
		member{name: "unknown", schema: whole("Inspected URLs of this bucket.")}).named("TrendDay")
}

func urlRowSchema() schema {
	return object(
		member{name: "url", schema: text("The address, as it was discovered.").like("https://www.example.com/chairs/")},
		coverageMember(),
		member{name: "bucket", schema: bucketSchema()},
		member{name: "verdict", schema: text("Search Console's own word, such as PASS or NEUTRAL; the bucket depends on the label alone.").like("PASS")},
		member{name: "last_crawl_time", schema: instant("When Google last fetched it; null when it never did.").orNull()},
		member{name: "last_inspected_at", schema: instant("When Search Console was asked about it.")}).named("IndexedURL")
}
