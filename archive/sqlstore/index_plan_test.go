package sqlstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"sara/translate"
)

// plans returns the plans of a query: one on SQLite; on PostgreSQL a custom plan for these arguments, and the generic plan that it
// uses for a repeated prepared statement.
func (f *fixture) plans(query string, args ...any) (plans []string) {
	f.t.Helper()
	query, args = bindNamed(query, args)
	if f.dialect == sqliteDialect {
		steps := value(all(f.ctx, f.changes, func(row scanner, step *string) error {
			var id, parent, unused int
			err := row.Scan(&id, &parent, &unused, step)
			*step = fmt.Sprintf("%d in %d: %s", id, parent, *step)
			return err
		}, "EXPLAIN QUERY PLAN "+query, args...))(f.t)
		return []string{strings.Join(steps, "\n")}
	}
	steps := value(all(f.ctx, f.changes, scalar[string], "EXPLAIN "+query, args...))(f.t)
	if len(args) == 0 { // there is one plan
		return []string{strings.Join(steps, "\n")}
	}
	conn := value(f.pools.jobs.Conn(f.ctx))(f.t)
	generic := fmt.Sprintf("SET plan_cache_mode = force_generic_plan; PREPARE it AS %s; EXPLAIN EXECUTE it (%s); DEALLOCATE it;"+
		" RESET plan_cache_mode", query, strings.TrimPrefix(strings.Repeat(", NULL", len(args)), ", "))
	var lines []string
	wantNil(f.t, conn.Raw(func(driver any) error {
		results, err := driver.(*stdlib.Conn).Conn().PgConn().Exec(f.ctx, generic).ReadAll()
		for _, r := range results {
			for _, row := range r.Rows {
				lines = append(lines, string(row[0]))
			}
		}
		return err
	}))
	wantNil(f.t, conn.Close())
	return []string{strings.Join(steps, "\n"), strings.Join(lines, "\n")}
}

// seedPlans returns one of several properties of equal size. SQLite ignores their size; PostgreSQL would scan a table of a few
// pages.
func seedPlans(f *fixture) (site Property) {
	f.t.Helper()
	f.acme()
	size := 20
	if f.dialect == postgresDialect {
		size = 600
	}
	for i := range 8 {
		site = f.property("google", fmt.Sprintf("sc-domain:shop%d.example", i))
		seedURLs(f, site.ID, size)
	}
	if f.dialect == postgresDialect {
		value(f.pools.jobs.ExecContext(f.ctx, "VACUUM ANALYZE"))(f.t)
	}
	return site
}

// A page is read from the covering index of its order, without reading other properties' rows or sorting all.
func testPlansOfPages(t *testing.T, f *fixture) {
	site := seedPlans(f)
	indexes := map[string]string{
		"importance": "indexed_urls_by_clicks_asc", "-importance": "indexed_urls_by_clicks_desc",
		"last_crawl_time": "indexed_urls_by_crawled_asc", "-last_crawl_time": "indexed_urls_by_crawled_desc",
		"last_inspected_at": "indexed_urls_by_inspected_asc", "-last_inspected_at": "indexed_urls_by_inspected_desc",
		"url": "indexed_urls_by_url", "-url": "indexed_urls_by_url",
	}
	for _, q := range []IndexQuery{
		{},
		{Bucket: translate.BucketUnknown},
		{CoverageState: "Soft 404"},
		{SitemapPath: "https://example.com/sitemap-3.xml"},
		{Contains: "shop"},
		{Bucket: translate.BucketError, CoverageState: "Soft 404", SitemapPath: "https://example.com/sitemap-3.xml", Contains: "shop"},
	} {
		for by, index := range indexes {
			name, descending := strings.CutPrefix(by, "-")
			order := value(indexOrder(translate.Order{By: name, Descending: descending}))(t)
			where, values := f.indexConditions(site.ID, q)
			values["limit"], values["offset"] = 500, 400
			for _, plan := range f.plans(pageQuery(order, where), values) {
				if !pagesFromIndex(f.dialect, plan, index, q != IndexQuery{}) {
					t.Errorf("%+v by %s does not use %s alone:\n%s", q, by, index, plan)
				}
			}
		}
	}
}

// pagesFromIndex reports whether the rows of a page come from an index of their order. For a filtered page, PostgreSQL may use any
// index and sort the few rows that it expects.
func pagesFromIndex(d dialect, plan, index string, filtered bool) bool {
	if d == sqliteDialect {
		// Steps under 0 only process the page, which another step has limited.
		inPage := strings.Index(plan, " in 3: SEARCH indexed_urls USING COVERING INDEX "+index+" (number=?)")
		return inPage > 0 && !strings.Contains(plan, " in 3: USE TEMP B-TREE") && !strings.Contains(plan, ": SCAN indexed_urls")
	}
	_, page, found := strings.Cut(plan, "->  Limit ")
	page, _, _ = strings.Cut(page, "using indexed_urls_pkey") // which finds the rows of the page in the table
	if filtered {
		return found && strings.Contains(page, " using indexed_urls_by_") && !strings.Contains(plan, "Seq Scan on indexed_urls")
	}
	inOrder := strings.Contains(page, "Index Only Scan using "+index+" ") || strings.Contains(page, "Index Only Scan Backward using "+index+" ")
	return found && inOrder && !strings.Contains(page, "Sort") && !strings.Contains(plan, "Seq Scan on indexed_urls")
}

// Queries that count or read the URLs of a property find them by an index.
func testPlansOfReadings(t *testing.T, f *fixture) {
	site := seedPlans(f)
	where, values := f.indexConditions(site.ID, IndexQuery{Bucket: translate.BucketError, CoverageState: "Soft 404",
		SitemapPath: "https://example.com/sitemap-3.xml", Contains: "shop"})
	values["read"], values["last_key"], values["last_url"] = 5, int64(3), []byte("https://example.com/")
	counted, countedValues := f.indexConditions(site.ID, IndexQuery{CoverageState: "Soft 404", SitemapPath: "https://example.com/sitemap-3.xml"})
	type query struct {
		text string
		args []any
	}
	queries := map[string]query{
		"count of a search": {totalQuery("SELECT count(*) FROM indexed_urls WHERE " + where), []any{values}},
		"total":             {totalQuery("SELECT coalesce(sum(urls), 0) FROM index_counts WHERE " + counted), []any{countedValues}},
		"state":             {selectIndexState, []any{site.ID}},
		"coverage":          {selectCoverage, []any{named{"property": site.ID}}},
		"rollups":           {selectRollups, []any{named{"property": site.ID}}},
		"trend":             {selectIndexDays, []any{named{"property": site.ID, "from": 1}}},
		"prune":             {pruneDays, []any{1, keptIndexDays}},
		"stage":             {stageInspection, []any{1, 1, "PASS", 1, 1, site.ID, []byte("https://example.com/")}},
		"apply":             {applyInspections, []any{1}},
	}
	for _, order := range []string{"clicks", "clicks DESC", "url", "url DESC", "crawled_asc", "crawled_desc DESC", "inspected_at", "inspected_at DESC"} {
		count := countQuery(IndexQuery{Contains: "shop", Limit: 5}, order, where, 5)
		queries["count after a page by "+order] = query{totalQuery(count), []any{values}}
	}
	for name, query := range queries {
		for _, plan := range f.plans(query.text, query.args...) {
			for _, whole := range []string{"SCAN indexed_urls", "SCAN u", "SCAN c", "SCAN index_counts", "SCAN index_days", "SCAN i",
				"Seq Scan on indexed_urls"} {
				if strings.Contains(plan+"\n", whole+"\n") || strings.Contains(plan, whole+" ") {
					t.Errorf("%s reads other properties' rows:\n%s", name, plan)
				}
			}
		}
	}
}
