package proxy

import (
	"fmt"
	"strings"

	"sara/policy"
	"sara/translate"
)

func metricMembers() []member {
	return []member{
		{name: "clicks", schema: whole("Clicks from search results.").with("minimum", 0).like(1240)},
		{name: "impressions", schema: whole("How often a result was shown.").with("minimum", 0).like(31000)},
		{name: "ctr", schema: number("Clicks per impression, a fraction; 0 without impressions.").with("minimum", 0).like(0.04)},
		{name: "position", schema: number("Average position, counted from 1; 0 without impressions.").with("minimum", 0).like(8.7)},
	}
}

func rangeMembers() []member {
	return []member{
		{name: "start_date", schema: day("First day.").like("2026-10-23")},
		{name: "end_date", schema: day("Last day, included.").like("2026-11-19")},
	}
}

func summarySchema() schema {
	return object(
		member{name: "totals", schema: object(metricMembers()...).named("Metrics")},
		member{name: "previous", optional: true, schema: previousSchema()}).named("Summary")
}

func previousSchema() schema {
	return object(append(rangeMembers(), metricMembers()...)...).
		with("description", "The period that compare names: the window of equal length right before, or the same dates a year before.").
		named("PreviousPeriod")
}

func portfolioSchema() schema {
	totals := func() schema { return object(metricMembers()...).named("Metrics").orNull() }
	previous := func() schema { return previousSchema().orNull() }
	row := object(
		member{name: "property_id", schema: uuid("The property.")},
		member{name: "name", schema: text("Its name for people.").like("Example")},
		siteMember(),
		slugMember(),
		member{name: "totals", schema: totals()},
		member{name: "previous", schema: previous()},
		member{name: "clicks_delta", schema: whole("Clicks gained since the period before; null without compare or figures.").orNull().like(60)},
		member{name: "source", schema: sourceSchema().orNull()},
		member{name: "stale_reason", schema: text("Why the figures are not current; null when they are.").orNull().with("examples", []any{nil})},
		member{name: "notes", schema: listOf(text("A line that explains the figures of this property."))},
		member{name: "error", schema: object(
			member{name: "code", schema: errorCodeSchema()},
			member{name: "message", schema: text("What is wrong, for people.")}).
			with("description", "Why the property has no figures; null if it has.").named("PropertyError").orNull()}).
		named("PortfolioRow")
	return object(
		member{name: "rows", schema: listOf(row)},
		member{name: "totals", schema: totals()},
		member{name: "previous", schema: previous()}).
		with("description", "totals and previous are those of all properties that have figures, whether their row is on this page or not.").
		named("Portfolio")
}

func portfolioMetaSchema() schema {
	members := append([]member{requestIDMember(), appliedRangeMember(), rowCountMember()}, pageMembers(50, "How many properties there are in all.")...)
	return object(append(members, member{name: "source", schema: sourceSchema().orNull()}, cacheMember(), notesMember())...).named("PortfolioMeta")
}

// rowsSchema is a list of rows. Its name is the plural of the row's.
func rowsSchema(row schema) schema {
	return object(member{name: "rows", schema: listOf(row)}).named(fmt.Sprint(row[nameKeyword], "s"))
}

func daySchema() schema {
	return object(append([]member{{name: "date", schema: day("The day.").like("2026-11-19")}}, metricMembers()...)...).named("Day")
}

// titled is the name of a dimension as a prefix of schema names.
func titled(by translate.Dimension) string {
	name := by.String()
	return strings.ToUpper(name[:1]) + name[1:]
}

func dimensionMember(by translate.Dimension) member {
	return member{name: "dimension", schema: text("What the keys are.").with("const", by.String())}
}

func keyMember(by translate.Dimension) member {
	key := text("The " + by.String() + ".")
	switch by {
	case translate.ByQuery:
		key.like("garden chair")
	case translate.ByPage:
		key.like("https://www.example.com/chairs/")
	case translate.ByCountry:
		key = text("ISO 3166-1 alpha-3 code in lower case; zzz for unknown.").with("pattern", "^[a-z]{3}$").like("usa")
	case translate.ByDevice:
		key.like("MOBILE")
	}
	return member{name: "key", schema: key}
}

func breakdownSchema(by translate.Dimension) schema {
	row := object(append([]member{keyMember(by)}, metricMembers()...)...).named(titled(by) + "Row")
	return object(dimensionMember(by), member{name: "rows", schema: listOf(row)}).named(titled(by) + "Rows")
}

func moversSchema(by translate.Dimension) schema {
	mover := object(
		keyMember(by),
		member{name: "clicks", schema: whole("Clicks in the period.").like(180)},
		member{name: "previous_clicks", schema: whole("Clicks in the period before.").like(120)},
		member{name: "clicks_delta", schema: whole("The difference; negative for losers.").like(60)},
		member{name: "clicks_change_pct", schema: number("The difference in percent of the period before; 100 when that had none.").like(50)},
		member{name: "impressions", schema: whole("Impressions in the period.").like(2400)},
		member{name: "previous_impressions", schema: whole("Impressions in the period before.").like(2100)},
		member{name: "position", schema: number("Average position in the period; 0 when it was not shown.").like(4.2)},
		member{name: "previous_position", schema: number("Average position in the period before; 0 when it was not shown.").like(5.1)}).
		named(titled(by) + "Mover")
	return object(dimensionMember(by),
		member{name: "previous_range", schema: object(rangeMembers()...).named("DateRange")},
		member{name: "gainers", schema: listOf(mover).with("description", "Most clicks gained first.")},
		member{name: "losers", schema: listOf(mover).with("description", "Most clicks lost first.")}).named(titled(by) + "Movers")
}

func scopeSchema() schema {
	return text("A scope, which lets a key use a part of the API.").with("enum", policy.AllScopes.Names()).named("Scope")
}

func accountSchema() schema {
	return object(
		member{name: "key", schema: object(
			member{name: "id", schema: uuid("The calling key.")},
			member{name: "scopes", schema: listOf(scopeSchema())},
			member{name: "workspace_scope", schema: object(
				member{name: "id", schema: uuid("The workspace.")},
				member{name: "name", schema: text("Its name.").like("Garden shop")}).
				with("description", "The one workspace that the key reaches; null for a key of every workspace.").
				named("Workspace").orNull()}).
			named("CallingKey")},
		member{name: "account", schema: object(
			member{name: "plan_tier", schema: text("The account's plan.").like("pro")}).named("Plan")},
		member{name: "limits", schema: object(
			member{name: "requests_per_minute_per_key", schema: whole("Burst of one key.").like(20)},
			member{name: "requests_per_hour", schema: whole("Of the account.").like(250)},
			member{name: "requests_per_day", schema: whole("Of the account; resets at midnight UTC.").like(1000)},
			member{name: "search_console_calls_per_day", schema: whole("Live upstream calls of the account.").like(250)},
			member{name: "live_calls_per_minute_per_property", schema: whole("Live upstream calls about one property, as a burst.").like(30)}).
			named("Limits")},
		member{name: "usage", schema: object(
			member{name: "requests_this_hour", schema: whole("Of the account.").like(12)},
			member{name: "requests_today", schema: whole("Of the account, since midnight UTC.").like(180)},
			member{name: "search_console_calls_today", schema: whole("Of the account, since midnight UTC.").like(40)},
			member{name: "search_console_calls_remaining_today", schema: whole("Of the account, until midnight UTC.").like(210)}).
			named("Usage")}).named("Account")
}

func siteMember() member {
	return member{name: "gsc_property", schema: text("The full upstream string: sc-domain:example.com or a URL prefix.").like("sc-domain:example.com")}
}

func slugMember() member {
	return member{name: "slug", schema: text("A short name, which {id} takes too; unique in a workspace.").like("example-com")}
}

func propertyMembers() []member {
	return []member{
		{name: "id", schema: uuid("The property.")},
		siteMember(),
		{name: "display_name", schema: text("Its name for people.").like("Example")},
		{name: "type", schema: text("Which kind of property it is upstream.").with("enum", []string{"domain", "url_prefix"}).named("PropertyType")},
		{name: "archived", schema: boolean("Archived properties serve stored history only.")},
	}
}

// propertyRowSchema has its members in the order of propertyRow.
func propertyRowSchema() schema {
	shared := propertyMembers()
	id, site, displayName, kind, archived := shared[0], shared[1], shared[2], shared[3], shared[4]
	return object(id, site, displayName,
		slugMember(),
		kind,
		member{name: "permission_level", schema: text("The upstream's own word, such as siteOwner.").like("siteOwner")},
		member{name: "starred", schema: boolean("Marked by its people.")},
		archived,
		member{name: "created_at", schema: instant("When it was connected.")}).named("PropertyRow")
}

func propertySchema() schema {
	return object(append(propertyMembers(),
		member{name: "data_window", schema: object(
			member{name: "latest_data_date", schema: day("The anchor: the last day of every range.").like("2026-11-19")},
			member{name: "earliest_data_date", schema: day("The first day that the key can read.").like("2023-11-20")},
			member{name: "live_window_months", schema: whole("How far back the upstream keeps data.").like(16)},
			member{name: "retention_months", schema: whole("How far back the plan allows ranges.").like(36)}).named("DataWindow")},
		member{name: "connection", schema: object(
			member{name: "healthy", schema: boolean("Whether the upstream answered when it was last asked.")},
			member{name: "note", schema: text("Why it did not; null when it did.").orNull()}).named("Connection")},
		member{name: "last_archived_date", schema: day("The last day that is stored; null while nothing is.").orNull()})...).named("Property")
}

func brandTermSchema() schema {
	return object(
		member{name: "id", schema: uuid("The term.")},
		member{name: "term", schema: text("A word or phrase, or an RE2 expression.").like("example")},
		member{name: "match_type", schema: text("How queries match it.").with("enum", []string{"contains", "exact", "regex"})},
		member{name: "created_at", schema: instant("When it was added.")}).named("BrandTerm")
}

func pageGroupSchema() schema {
	rule := object(
		member{name: "type", schema: text("How pages match.").with("enum", []string{"prefix", "contains", "equals", "regex"})},
		member{name: "value", schema: text("Matched against the page's URL; one that starts with a slash, by prefix or equals, against its path.").like("/blog/")}).
		named("PageGroupRule")
	return object(
		member{name: "id", schema: uuid("The group.")},
		member{name: "name", schema: text("What the page_group filter calls it.").like("Blog")},
		member{name: "rules", schema: listOf(rule).with("description", "ORed.")},
		member{name: "created_at", schema: instant("When it was added.")}).named("PageGroup")
}

func annotationSchema() schema {
	return object(
		member{name: "id", schema: uuid("The annotation.")},
		member{name: "date", schema: day("The day that it is about.")},
		member{name: "title", schema: text("What happened.").like("New shop system")},
		member{name: "note", schema: text("More about it; may be empty.").like("All addresses were redirected.")},
		member{name: "color", schema: text("For charts.").like("blue")}).named("Annotation")
}

func anomalySchema() schema {
	return object(
		member{name: "id", schema: text("Its name, with which the notes of answers begin.").like("gsc-impressions-logging-2025")},
		member{name: "start_date", schema: day("The first day.").like("2025-05-13")},
		member{name: "end_date", schema: day("The last day, included; null for a window that is still open, and for a step whose day is known.").orNull().like("2026-04-27")},
		member{name: "kind", schema: text("window: the figures of these days are wrong. step: from then on figures are of another make.").
			with("enum", []string{translate.AnomalyWindow, translate.AnomalyStep}).named("AnomalyKind")},
		member{name: "metrics", schema: listOf(text("A metric that it distorts.").with("enum", translate.AnomalyMetrics()).named("Metric"))},
		member{name: "effect", schema: text("What it does to the figures.").like("A logging error made impressions inaccurate. Clicks are right.")},
		member{name: "source_url", schema: text("Where it is described.").with("format", "uri").like("https://support.google.com/webmasters/answer/6211453")}).
		named("Anomaly")
}

func requestIDMember() member {
	return member{name: "request_id", schema: text("Identifies the request; quote it when you ask for support.").
		like("req_6e8b96f243eb5292ac14fe259602aeef")}
}

func propertyIDMember() member {
	return member{name: "property_id", schema: uuid("The property that the request resolved to.")}
}

func notesMember() member {
	return member{name: "notes", schema: listOf(text("A line that explains the answer."))}
}

func rowCountMember() member {
	return member{name: "row_count", schema: whole("Rows returned.").like(1)}
}

// pageMembers say which rows of a list a page has.
func pageMembers(limit int, total string) []member {
	return []member{
		{name: "limit", schema: whole("The limit applied.").like(limit)},
		{name: "offset", schema: whole("The rows skipped.").like(0)},
		{name: "total", schema: whole(total).like(1)},
	}
}

func metaSchema() schema { return object(requestIDMember()).named("Meta") }

func countMetaSchema() schema { return object(requestIDMember(), rowCountMember()).named("CountMeta") }

func pageMetaSchema() schema {
	return object(append([]member{requestIDMember(), rowCountMember()}, pageMembers(50, "How many there are in all.")...)...).named("PagedMeta")
}

func propertyMetaSchema() schema {
	return object(requestIDMember(), propertyIDMember(), notesMember()).named("PropertyMeta")
}

func listMetaSchema() schema {
	return object(requestIDMember(), propertyIDMember(), notesMember(), rowCountMember()).named("ListMeta")
}

func performanceMetaSchema() schema { return object(performanceMembers()...).named("PerformanceMeta") }

func tableMetaSchema() schema {
	return object(append(performanceMembers(),
		member{name: "has_more", schema: boolean("Whether rows beyond the last one exist, in any order. False on a page without rows.").like(true)},
		member{name: "offset", optional: true, schema: whole("The rows skipped; absent on the first page.").like(1000)})...).named("TableMeta")
}

func performanceMembers() []member {
	return []member{requestIDMember(), propertyIDMember(), notesMember(),
		appliedRangeMember(),
		member{name: "row_count", schema: whole("Rows returned; null for totals.").orNull().like(1)},
		member{name: "limit", schema: whole("The limit applied; null where there is none.").orNull().like(100)},
		member{name: "total", schema: whole("Always null: the upstream does not say how many rows there are.").orNull().with("const", nil)},
		member{name: "truncated_by", schema: text("What the rows that fell off were ranked by; null when none did.").
			with("enum", []string{"clicks"}).named("Truncation").orNull()},
		member{name: "source", schema: sourceSchema()},
		member{name: "stale_reason", schema: text("Why the answer is not fresh; null when it is.").orNull().with("examples", []any{nil})},
		cacheMember()}
}

func appliedRangeMember() member {
	return member{name: "date_range", schema: object(append(rangeMembers(),
		member{name: "preset", schema: text("The relative range, or custom.").
			with("enum", append(translate.Presets(), translate.PresetCustom)).like(translate.DefaultPreset)})...).named("AppliedRange")}
}

func sourceSchema() schema {
	return text("Where the figures come from: live is complete, stored and hybrid are not current.").
		with("enum", []string{string(translate.SourceLive), string(translate.SourceArchive), string(translate.SourceHybrid)}).named("Source")
}

func cacheMember() member {
	return member{name: "cache", schema: text("Whether a stored answer was served.").
		with("enum", []string{"hit", "miss", "bypass"}).named("CacheUse")}
}

func filterSchema() schema {
	return object(
		member{name: "dimension", schema: text("What to filter by; brand and page_group mean what the property's owner configured.").
			with("enum", translate.FilterDimensions())},
		member{name: "operator", schema: text("How to compare; brand and page_group take equals, not_equals, is and is_not.").
			with("enum", translate.FilterOperators())},
		member{name: "value", schema: text("What to compare with.").with("minLength", 1).with("maxLength", 200)}).
		with("additionalProperties", false).
		like(map[string]any{"dimension": "device", "operator": "equals", "value": "mobile"}).named("Filter")
}

func bucketSchema() schema {
	names := make([]string, 0, len(translate.Buckets()))
	for _, b := range translate.Buckets() {
		names = append(names, b.String())
	}
	return text("What the label means in one word.").with("enum", names).named("Bucket")
}

func indexingSchema() schema {
	return object(
		member{name: "status", schema: text("How far collecting has come; before ready nothing is known, which does not mean that nothing is indexed.").
			with("enum", []string{pendingDiscovery, pendingInspection, indexReady}).like(indexReady)},
		member{name: "discovery_source", schema: text("What the URLs were found in: sitemaps, pages with search traffic, or both; null while there are none.").
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

func coverageMember() member {
	return member{name: "coverage_state", schema: text("The upstream's own label.").like("Submitted and indexed")}
}

func sitemapSchema() schema {
	return object(
		member{name: "path", schema: text("The sitemap's address; what sitemap_path takes.").like("https://www.example.com/sitemap.xml")},
		member{name: "total_urls", schema: whole("Tracked URLs that it lists, by itself or through sitemaps that it names.")},
		member{name: "inspected_urls", schema: whole("Those with a result.")},
		member{name: "indexed", schema: whole("Those of the bucket indexed; 0 while inspected_urls is 0.")},
		member{name: "not_indexed", schema: whole("Those of the buckets not_indexed and error; 0 while inspected_urls is 0.")},
		member{name: "last_downloaded", schema: instant("When the upstream last read it; null when it never did, or does not list the sitemap itself.").orNull()},
		member{name: "is_pending", schema: boolean("Whether the upstream has yet to process it; null when it does not list the sitemap itself.").orNull()},
		member{name: "warnings", schema: whole("The upstream's count; null when it does not list the sitemap itself.").orNull()},
		member{name: "errors", schema: whole("The upstream's count; null when it does not list the sitemap itself.").orNull()}).named("Sitemap")
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
		member{name: "verdict", schema: text("The upstream's own word, such as PASS or NEUTRAL; the bucket goes by the label.").like("PASS")},
		member{name: "last_crawl_time", schema: instant("When the upstream last fetched it; null when it never did.").orNull()},
		member{name: "last_inspected_at", schema: instant("When the upstream was asked about it.")}).named("IndexedURL")
}

func indexMetaMembers() []member {
	return []member{requestIDMember(), propertyIDMember(), notesMember(),
		{name: "source", schema: text("Results are collected once a day: they are not current.").with("const", string(translate.SourceArchive))},
		{name: "cache", schema: text("There is no response cache behind the answer.").with("const", cacheBypass)}}
}

func indexMetaSchema() schema { return object(indexMetaMembers()...).named("IndexingMeta") }

func urlsMetaSchema() schema {
	members := append(indexMetaMembers(), rowCountMember())
	return object(append(members, pageMembers(100, "How many inspected URLs match in all.")...)...).named("IndexedURLsMeta")
}
