package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/translate"
)

const (
	indexingNames  = "breakdown discovery_source last_refreshed_at sitemaps status totals trend url_count urls_capped"
	zeroTotals     = "map[indexed:0 inspected_urls:0 not_indexed:0 total_urls:0]"
	indexMetaNames = "cache notes property_id request_id source"
)

func (w *world) indexing(t *testing.T, property string, query ...string) response {
	t.Helper()
	r := w.get("pro", w.path(property, "/indexing"), query...).ok(t)
	wantMembers(t, "data", r.data(), indexingNames)
	wantMembers(t, "data.totals", r.data()["totals"], "indexed inspected_urls not_indexed total_urls")
	wantMembers(t, "meta", r.meta(), indexMetaNames)
	if m := r.meta(); m["source"] != "stored" || m["cache"] != "bypass" || m["property_id"] != w.properties[property].ID ||
		r.header.Get("X-Cache") != "bypass" {
		t.Errorf("meta is %v, X-Cache %q", m, r.header.Get("X-Cache"))
	}
	return r
}

// wantNull fails the test unless the members of an object are present and null.
func wantNull(t *testing.T, what string, value any, names ...string) {
	t.Helper()
	object, _ := value.(map[string]any)
	for _, name := range names {
		if got, there := object[name]; !there || got != nil {
			t.Errorf("%s.%s is %v, want null", what, name, got)
		}
	}
}

// Before there are results, the types hold, and a note says that the zeros are no results.
func TestIndexing200PendingDiscovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, property := range []string{"main", "archived", "disconnected", "forbidden"} {
		r := w.indexing(t, property, "include_trend", "true")
		if r.data()["status"] != "pending_discovery" {
			t.Errorf("%s is %v", property, r.data()["status"])
		}
		wantNull(t, "data", r.data(), "discovery_source", "last_refreshed_at")
		if d := r.data(); d["url_count"] != 0.0 || d["urls_capped"] != false || fmt.Sprint(d["totals"]) != zeroTotals {
			t.Errorf("data is %v", d)
		}
		for _, list := range []string{"breakdown", "sitemaps", "trend"} {
			if rows, isList := r.data()[list].([]any); !isList || len(rows) != 0 {
				t.Errorf("%s is %v", list, r.data()[list])
			}
		}
		wantText(t, "the note", notes(r), "have not been discovered")
		urls := w.get("pro", w.path(property, "/indexing/urls")).ok(t)
		wantText(t, "the note", notes(urls), "have not been discovered")
		if len(urls.rows()) != 0 || urls.rows() == nil || urls.meta()["total"] != 0.0 {
			t.Errorf("%s lists %s", property, urls.body)
		}
	}
}

// The notes explain why there are no results yet.
func TestIndexing200PendingNotesWhatFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.properties["main"].ID
	w.must(w.store.SaveIndexRun(context.Background(), sqlstore.IndexState{PropertyID: id, Failures: 1, Note: "the sitemap was not read"}))
	r := w.indexing(t, "main")
	wantText(t, "the notes", notes(r), "have not been discovered", "The last attempt failed: the sitemap was not read.")
	if r.data()["status"] != "pending_discovery" {
		t.Errorf("data is %v", r.data())
	}
}

// One URL is not several.
func TestNotesOfOneURL(t *testing.T) {
	t.Parallel()
	c := call{property: &policy.Property{}}
	day := time.Unix(1, 0)
	found := func(n int) *sqlstore.IndexState { return &sqlstore.IndexState{URLs: n, DiscoveredAt: &day} }
	inspected := &sqlstore.IndexState{URLs: 9, DiscoveredAt: &day, RefreshedAt: &day}
	for want, m := range map[string]indexMeta{
		"The discovered URL has not been inspected yet: what is indexed is unknown.":        c.indexMeta(found(1), 0, nil),
		"None of the 2 discovered URLs has been inspected yet: what is indexed is unknown.": c.indexMeta(found(2), 0, nil),
		"1 of 9 URLs has not been inspected yet: it is in no bucket, and not listed.":       c.indexMeta(inspected, 8, nil),
		"2 of 9 URLs have not been inspected yet: they are in no bucket, and not listed.":   c.indexMeta(inspected, 7, nil),
	} {
		if !slices.Equal(m.Notes, []string{want}) {
			t.Errorf("the notes are %q, want %q", m.Notes, want)
		}
	}
}

func TestIndexing200PendingInspection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pages := w.pages()
	w.discover("main", pages)
	check := func() {
		t.Helper()
		r := w.indexing(t, "main")
		if d := r.data(); d["status"] != "pending_inspection" || d["url_count"] != float64(len(pages)) || d["urls_capped"] != false ||
			d["discovery_source"] != "sitemap+performance" {
			t.Errorf("data is %v", d)
		}
		wantNull(t, "data", r.data(), "last_refreshed_at", "trend")
		if totals := r.data()["totals"].(map[string]any); totals["total_urls"] != float64(len(pages)) || totals["inspected_urls"] != 0.0 ||
			totals["indexed"] != 0.0 || totals["not_indexed"] != 0.0 {
			t.Errorf("totals are %v", totals)
		}
		for _, row := range r.data()["sitemaps"].([]any) {
			if row := row.(map[string]any); row["inspected_urls"] != 0.0 || row["indexed"] != 0.0 || row["not_indexed"] != 0.0 {
				t.Errorf("a sitemap is %v", row)
			}
		}
		wantText(t, "the note", notes(r), "None of the", "has been inspected")
		w.wantURLs(t, urlFilter{}, 100, 0, nil)
	}
	check()
	w.inspect("main", pages, false) // a running run shows nothing
	check()
}

func TestIndexing200PendingAgainWhenEveryURLIsNew(t *testing.T) {
	t.Parallel()
	w, _ := newIndexedWorld(t)
	w.discover("main", []page{{url: "https://www.example.com/relaunched"}})
	r := w.indexing(t, "main")
	if r.data()["status"] != "pending_inspection" {
		t.Errorf("data is %v", r.data())
	}
	if totals := fmt.Sprint(r.data()["totals"]); totals != "map[indexed:0 inspected_urls:0 not_indexed:0 total_urls:1]" {
		t.Errorf("totals are %s", totals)
	}
	wantText(t, "the note", notes(r), "what is indexed is unknown")
}

// A site without URLs is ready: its zeros are results.
func TestIndexing200ReadyWithoutURLs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, id := context.Background(), w.properties["empty"].ID
	w.must(w.store.SaveDiscovery(ctx, id, sqlstore.Discovery{At: w.now()}))
	_, err := w.store.PublishInspections(ctx, id, w.server.calendar.Day(w.now()), w.now())
	w.must(err)
	r := w.indexing(t, "empty", "include_trend", "true")
	wantNull(t, "data", r.data(), "discovery_source")
	if d := r.data(); d["status"] != "ready" || d["url_count"] != 0.0 || fmt.Sprint(d["totals"]) != zeroTotals ||
		len(d["trend"].([]any)) != 1 || notes(r) != "" {
		t.Errorf("answers %s", r.body)
	}
}

func TestIndexing200Ready(t *testing.T) {
	t.Parallel()
	w, pages := newIndexedWorld(t)
	r := w.indexing(t, "main")
	d := r.data()
	wantNull(t, "data", d, "trend")
	if d["status"] != "ready" || d["discovery_source"] != "sitemap+performance" || d["url_count"] != float64(len(pages)) || d["urls_capped"] != false ||
		d["last_refreshed_at"] != "2026-11-21T20:00:00Z" {
		t.Errorf("data is %v", d)
	}
	wantText(t, "the notes", notes(r), "4 of 91 URLs have not been inspected", sitemapBlog, "it answers 404")
	labels := knownLabels()
	count := func(buckets ...translate.Bucket) (n int) {
		for _, b := range buckets {
			n += 3 * len(labels[b])
		}
		return n
	}
	totals := d["totals"].(map[string]any)
	for name, want := range map[string]int{"total_urls": len(pages), "inspected_urls": count(translate.Buckets()...),
		"indexed": count(translate.BucketIndexed), "not_indexed": count(translate.BucketNotIndexed, translate.BucketError)} {
		if totals[name] != float64(want) {
			t.Errorf("totals.%s is %v, want %d", name, totals[name], want)
		}
	}
	rows := d["breakdown"].([]any)
	seen := map[string]bool{}
	for i, row := range rows {
		row := row.(map[string]any)
		wantMembers(t, "a label", row, "bucket count coverage_state")
		label := row["coverage_state"].(string)
		seen[label+" is "+row["bucket"].(string)] = true
		if row["count"] != 3.0 || i > 0 && rows[i-1].(map[string]any)["coverage_state"].(string) >= label {
			t.Errorf("row %d is %v: want counts of 3, and labels in order", i, row)
		}
	}
	for bucket, list := range labels {
		for _, label := range list {
			if !seen[label+" is "+bucket.String()] {
				t.Errorf("the breakdown has no %q of the bucket %s", label, bucket)
			}
		}
	}
	if len(rows) != len(seen) || len(rows) != count(translate.Buckets()...)/3 {
		t.Errorf("%d rows, %d of them distinct", len(rows), len(seen))
	}
}

// The rollup of a sitemap counts what sitemap_path lists, the totals count all tracked URLs.
func TestIndexing200Sitemaps(t *testing.T) {
	t.Parallel()
	w, pages := newIndexedWorld(t)
	rows := w.indexing(t, "main").data()["sitemaps"].([]any)
	paths := []string{sitemapBlog, sitemapEmpty, sitemapProducts, sitemapIndex}
	if len(rows) != len(paths) {
		t.Fatalf("sitemaps are %v", rows)
	}
	for i, path := range paths {
		row := rows[i].(map[string]any)
		wantMembers(t, "a sitemap", row, "errors indexed inspected_urls is_pending last_downloaded not_indexed path total_urls warnings")
		total, inspected, indexed, notIndexed := 0, 0, 0, 0
		for _, p := range pages {
			if !strings.Contains(strings.Join(p.sitemaps, " ")+" ", path+" ") {
				continue
			}
			total++
			switch p.bucket {
			case translate.BucketIndexed:
				indexed++
			case translate.BucketNotIndexed, translate.BucketError:
				notIndexed++
			}
			if !p.inspected.IsZero() {
				inspected++
			}
		}
		if row["path"] != path || row["total_urls"] != float64(total) || row["inspected_urls"] != float64(inspected) ||
			row["indexed"] != float64(indexed) || row["not_indexed"] != float64(notIndexed) {
			t.Errorf("%s is %v, want %d URLs, %d inspected, %d indexed and %d not", path, row, total, inspected, indexed, notIndexed)
		}
		listed := w.get("pro", w.path("main", "/indexing/urls"), "sitemap_path", path).ok(t)
		if listed.meta()["total"] != row["inspected_urls"] {
			t.Errorf("%s lists %v URLs, its rollup counts %v", path, listed.meta()["total"], row["inspected_urls"])
		}
		if path != sitemapIndex {
			wantNull(t, path, row, "last_downloaded", "is_pending", "warnings", "errors")
		} else if row["last_downloaded"] != "2026-11-20T08:00:00Z" || row["is_pending"] != true || row["warnings"] != 3.0 || row["errors"] != 0.0 {
			t.Errorf("%s is %v", path, row)
		}
	}
}

// The trend has a row for each day in range on which results were refreshed.
func TestIndexing200Trend(t *testing.T) {
	t.Parallel()
	w, _ := newIndexedWorld(t)
	today := w.server.calendar.Day(w.now())
	const firstAge = 400
	for age := translate.Date(1); age <= firstAge; age++ {
		if age%10 == 3 {
			continue // nothing was collected on that day
		}
		n := int(age)
		w.must(w.store.SaveIndexDay(context.Background(), w.properties["main"].ID,
			sqlstore.IndexDay{Date: today - age, URLs: 10 + n, Indexed: n, NotIndexed: 1, Error: 2, Unknown: 3}))
	}
	for _, c := range []struct {
		query []string
		days  int
	}{{[]string{"days", "30"}, 30}, {nil, 90}, {[]string{"days", "90"}, 90}, {[]string{"days", "365"}, 365}} {
		rows := w.indexing(t, "main", append(c.query, "include_trend", "true")...).data()["trend"].([]any)
		i := 0
		for age := translate.Date(c.days - 1); age >= 0; age-- {
			if age%10 == 3 {
				continue
			}
			row := rows[i].(map[string]any)
			wantMembers(t, "a day", row, "date error indexed not_indexed total_urls unknown")
			n := float64(age)
			if row["date"] != (today-age).String() || age > 0 &&
				(row["total_urls"] != 10+n || row["indexed"] != n || row["not_indexed"] != 1.0 || row["error"] != 2.0 || row["unknown"] != 3.0) {
				t.Fatalf("%v: row %d is %v, want %s", c.query, i, row, today-age)
			}
			i++
		}
		if i != len(rows) {
			t.Errorf("%v: %d rows, want %d", c.query, len(rows), i)
		}
		last := fmt.Sprint(rows[len(rows)-1])
		if want := "map[date:2026-11-21 error:27 indexed:15 not_indexed:33 total_urls:91 unknown:12]"; last != want {
			t.Errorf("%v: today is %s, want %s", c.query, last, want)
		}
	}
	wantNull(t, "data", w.indexing(t, "main", "days", "30").data(), "trend")
	wantNull(t, "data", w.indexing(t, "main", "days", "365", "include_trend", "false").data(), "trend")
}

func TestIndexing200Capped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.store.SaveDiscovery(context.Background(), w.properties["main"].ID, sqlstore.Discovery{At: w.now(), Source: "performance", Capped: true,
		URLs: []sqlstore.DiscoveredURL{{URL: "https://example.com/", Clicks: 5}}}))
	r := w.indexing(t, "main")
	if r.data()["urls_capped"] != true || r.data()["discovery_source"] != "performance" || r.data()["url_count"] != 1.0 {
		t.Errorf("data is %v", r.data())
	}
	wantText(t, "the notes", notes(r), "the plan inspects")
}

func TestIndexing400Parameters(t *testing.T) {
	t.Parallel()
	w, _ := newIndexedWorld(t)
	var days []refusal
	for _, value := range []string{"", "0", "1", "29", "31", "60", "364", "366", "-30", "30.0", "030", "%2B30", "abc", "30&days=30"} {
		days = append(days, refusal{"days=" + value, codeValidation, "days"})
	}
	w.wantRefusedParameters("main", "/indexing", unknownRefusals(), days, []refusal{
		{"include_trend=1", codeValidation, "include_trend"}, {"include_trend=TRUE", codeValidation, "include_trend"},
		{"include_trend=", codeValidation, "include_trend"}, {"include_trend=true&include_trend=true", codeValidation, "twice"},
		{"limit=5", codeUnsupported, "limit"}, {"bucket=indexed", codeUnsupported, "bucket"},
	})
}

func TestIndexedURLs400Parameters(t *testing.T) {
	t.Parallel()
	w, _ := newIndexedWorld(t)
	long := strings.Repeat("x", 2049)
	w.wantRefusedParameters("main", "/indexing/urls", unknownRefusals(), integerRefusals("limit", 1, 500), integerRefusals("offset", 0, 0), []refusal{
		{"bucket=", codeValidation, "bucket"}, {"bucket=Indexed", codeValidation, "bucket"}, {"bucket=indexed,error", codeValidation, "bucket"},
		{"bucket=indexed&bucket=error", codeValidation, "twice"}, {"bucket=all", codeValidation, "not_indexed"},
		{"coverage_state=", codeValidation, "coverage_state"}, {"coverage_state=" + long, codeValidation, "coverage_state"},
		{"sitemap_path=", codeValidation, "sitemap_path"}, {"sitemap_path=" + long, codeValidation, "sitemap_path"},
		{"q=", codeValidation, "q"}, {"q=" + long, codeValidation, "q"}, {"q=%00", codeValidation, "NUL"}, {"q=%ff", codeValidation, "UTF-8"},
		{"sort=", codeValidation, "sort"}, {"sort=clicks", codeValidation, "importance"}, {"sort=-url", codeValidation, "sort"},
		{"sort=URL", codeValidation, "sort"},
		{"dir=", codeValidation, "dir"}, {"dir=ASC", codeValidation, "dir"}, {"dir=up", codeValidation, "dir"},
		{"days=30", codeUnsupported, "days"}, {"order_by=url", codeUnsupported, "order_by"}, {"url=a", codeUnsupported, "url"},
	})
}

func TestIndexedURLs200(t *testing.T) {
	t.Parallel()
	w, pages := newIndexedWorld(t)
	r := w.get("pro", w.path("main", "/indexing/urls")).ok(t)
	wantMembers(t, "data", r.data(), "rows")
	wantMembers(t, "meta", r.meta(), "cache limit notes offset property_id request_id row_count source total")
	wantMembers(t, "a URL", r.rows()[0], "bucket coverage_state last_crawl_time last_inspected_at url verdict")
	for _, row := range w.get("pro", w.path("main", "/indexing/urls"), "bucket", "not_indexed").ok(t).rows() {
		if row.(map[string]any)["bucket"] != "not_indexed" {
			t.Errorf("a URL that is not indexed has the bucket %v", row)
		}
	}
	if m := r.meta(); m["source"] != "stored" || m["cache"] != "bypass" || m["limit"] != 100.0 || m["offset"] != 0.0 ||
		m["property_id"] != w.properties["main"].ID {
		t.Errorf("meta is %v", m)
	}
	wantText(t, "the notes", notes(r), "4 of 91 URLs have not been inspected")
	for _, sort := range append([]string{""}, translate.URLOrders()...) {
		for _, dir := range []string{"", "asc", "desc"} {
			w.run(sort+" "+dir, func(t *testing.T) {
				f := urlFilter{sort: sort, dir: dir}
				w.wantURLs(t, f, 100, 0, pages)
				w.wantURLs(t, f, 500, 0, pages)
				w.wantURLs(t, f, 1, 86, pages)
				w.wantURLs(t, f, 100, 87, pages)
				w.wantURLs(t, f, 100, 1_000_000_000, pages)
				for offset := 0; offset < 91; offset += 19 {
					w.wantURLs(t, f, 19, offset, pages)
				}
			})
		}
	}
}

func TestIndexedURLs200Filters(t *testing.T) {
	t.Parallel()
	w, pages := newIndexedWorld(t)
	buckets := []string{"", "indexed", "not_indexed", "error", "unknown"}
	states := []string{"", "Soft 404", "soft  404", "Excluded by \"noindex\" tag", "EXCLUDED BY ‘NOINDEX’ TAG", "A label of tomorrow",
		"%", "no such label", "Gecrawlt - zurzeit nicht indexiert"}
	sitemaps := []string{"", sitemapProducts, sitemapBlog, sitemapIndex, sitemapEmpty, "https://www.example.com/sitemap%", strings.ToUpper(sitemapBlog)}
	patterns := []string{"", "blog", "BLOG", "/Products/", "a_b", "A_B", "%", "%2", "100%25_off", "_", "a b", "a%20b", "\\", "%5c", "a*b",
		"axb", "'", "\"", "x' OR '1'='1", "ü", "www.example.com", "nothing", "\n"}
	single := func(name string, values []string, set func(*urlFilter, string)) {
		for _, value := range values {
			w.run(name+"="+value, func(t *testing.T) {
				f := urlFilter{sort: "url", dir: "asc"}
				set(&f, value)
				w.wantURLs(t, f, 100, 0, pages)
			})
		}
	}
	single("bucket", buckets, func(f *urlFilter, v string) { f.bucket = v })
	single("coverage_state", states, func(f *urlFilter, v string) { f.state = v })
	single("sitemap_path", sitemaps, func(f *urlFilter, v string) { f.sitemap = v })
	single("q", patterns, func(f *urlFilter, v string) { f.q = v })

	random := rand.New(rand.NewPCG(6, 6))
	pick := func(values []string) string { return values[random.IntN(len(values))] }
	for range 60 {
		f := urlFilter{bucket: pick(buckets), sitemap: pick(sitemaps), q: pick(patterns),
			sort: pick(append([]string{""}, translate.URLOrders()...)), dir: pick([]string{"", "asc", "desc"})}
		if random.IntN(3) == 0 {
			f.state = pick(states)
		}
		w.wantURLs(t, f, 1+random.IntN(40), random.IntN(30), pages)
	}
}

// The breakdown counts what coverage_state lists, also for labels that differ in quotes, dashes, spaces or case alone.
func TestIndexedURLs200CoverageStateCountsLikeTheBreakdown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	labels := []string{"Excluded by ‘noindex’ tag", "Excluded by 'noindex' tag", "Excluded by \"noindex\" tag", "Crawled - currently not indexed",
		"Crawled – currently not indexed", "Soft 404", "soft 404", "Soft  404", "A label of tomorrow", "a label of tomorrow"}
	var pages []page
	for i, label := range labels {
		bucket, _ := translate.BucketOf(label)
		for j := range i + 1 {
			pages = append(pages, page{url: fmt.Sprintf("https://www.example.com/%d/%d", i, j), label: label, bucket: bucket, inspected: w.now()})
		}
	}
	w.discover("main", pages)
	w.inspect("main", pages, true)
	breakdown := w.indexing(t, "main").data()["breakdown"].([]any)
	if len(breakdown) != len(labels) {
		t.Errorf("the breakdown is %v, want %d labels", breakdown, len(labels))
	}
	for _, row := range breakdown {
		row := row.(map[string]any)
		label := row["coverage_state"].(string)
		listed := w.get("pro", w.path("main", "/indexing/urls"), "coverage_state", label).ok(t)
		if listed.meta()["total"] != row["count"] || float64(len(listed.rows())) != row["count"] {
			t.Errorf("%q is counted %v times, %v of it are listed", label, row["count"], listed.meta()["total"])
		}
		for _, u := range listed.rows() {
			if u := u.(map[string]any); u["coverage_state"] != label || u["bucket"] != row["bucket"] {
				t.Errorf("coverage_state=%s lists %v", label, u)
			}
		}
	}
	if none := w.get("pro", w.path("main", "/indexing/urls"), "coverage_state", "SOFT 404").ok(t); none.meta()["total"] != 0.0 {
		t.Errorf("a label that the breakdown does not show lists %s", none.body)
	}
}

// Paging is stable while an inspection runs: results are published when it is complete.
func TestIndexedURLs200StablePagingWhileInspectionsRun(t *testing.T) {
	t.Parallel()
	w, pages := newIndexedWorld(t)
	renewed := w.pages()
	for i := range renewed {
		renewed[i].inspected = w.now().Add(time.Hour)
		renewed[i].label, renewed[i].bucket, renewed[i].verdict = "Soft 404", translate.BucketError, "NEUTRAL"
	}
	for _, sort := range translate.URLOrders() {
		for offset := 0; offset < len(pages); offset += 25 {
			w.inspect("main", renewed[offset:min(offset+25, len(renewed))], false)
			w.wantURLs(t, urlFilter{sort: sort}, 25, offset, pages)
			w.wantURLs(t, urlFilter{sort: sort, bucket: "indexed"}, 25, offset, pages)
		}
	}
	w.inspect("main", nil, true)
	for _, sort := range translate.URLOrders() {
		w.wantURLs(t, urlFilter{sort: sort}, 100, 0, renewed)
	}
}

// Two properties of one site do not share URLs.
func TestIndexing200KeepsPropertiesApart(t *testing.T) {
	t.Parallel()
	w, pages := newIndexedWorld(t)
	w.discover("twin_a", pages[:5])
	w.inspect("twin_a", pages[:5], true)
	w.wantURLs(t, urlFilter{}, 100, 0, pages)
	if r := w.indexing(t, "twin_a"); r.data()["url_count"] != 5.0 {
		t.Errorf("data is %v", r.data())
	}
	if r := w.indexing(t, "twin_b"); r.data()["status"] != "pending_discovery" {
		t.Errorf("data is %v", r.data())
	}
}
