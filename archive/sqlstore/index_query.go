package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"sara/translate"
)

// An IndexQuery selects inspections of a property. Zero fields do not filter.
type IndexQuery struct {
	Bucket        translate.Bucket
	CoverageState string // exactly as IndexSummary shows it
	SitemapPath   string
	Contains      string // a substring of the URL without wildcards: ASCII case-insensitive, other characters percent-encoded
	// Order is by importance, url, last_crawl_time or last_inspected_at. Ties are ordered by URL. URLs that were never crawled come
	// last in both directions.
	Order         translate.Order
	Limit, Offset int
}

// An IndexedPage is a page of inspections and their total, from one snapshot.
type IndexedPage struct {
	State     IndexState
	Inspected int // inspected URLs of the property
	Rows      []Inspection
	Total     int // inspections that match the query
}

const (
	// maxReadings bounds the retries when a publication happens between reading the rows and reading the total.
	maxReadings = 10
	// neverRevised is the revision of a property that was never inspected.
	neverRevised = -1
)

// IndexedURLs returns a page of the published inspections of a property.
func (s *Store) IndexedURLs(ctx context.Context, propertyID string, q IndexQuery) (_ IndexedPage, err error) {
	defer wrap(&err, "list the indexed URLs of property %s", propertyID)
	return s.readConsistentPage(ctx, propertyID, q)
}

func (s *Store) readConsistentPage(ctx context.Context, propertyID string, q IndexQuery) (IndexedPage, error) {
	order, err := indexOrder(q.Order)
	if err != nil {
		return IndexedPage{}, err
	}
	where, values := s.indexConditions(propertyID, q)
	values["limit"], values["offset"] = q.Limit, q.Offset
	for range maxReadings {
		rows, last, revision, err := s.readRows(ctx, pageQuery(order, where), values)
		if err != nil {
			return IndexedPage{}, err
		}
		values["read"], values["last_key"], values["last_url"] = q.Offset+len(rows), last.key, last.url
		page, counted, err := s.readTotal(ctx, totalQuery(countQuery(q, order, where, len(rows))), values)
		if err != nil {
			return IndexedPage{}, err
		}
		if page.State.PropertyID, page.Rows = propertyID, rows; revision == counted {
			return page, nil
		}
	}
	return IndexedPage{}, fmt.Errorf("a publication interrupted each of %d attempts", maxReadings)
}

// indexOrder returns the sort key that precedes the URL in the order, and that a covering index has.
func indexOrder(o translate.Order) (key string, err error) {
	columns := [2]string{}
	switch o.By {
	case "importance":
		columns = [2]string{"clicks", "clicks DESC"}
	case "url":
		columns = [2]string{"url", "url DESC"}
	case "last_crawl_time":
		columns = [2]string{"crawled_asc", "crawled_desc DESC"}
	case "last_inspected_at":
		columns = [2]string{"inspected_at", "inspected_at DESC"}
	default:
		return "", &InputError{"order", fmt.Sprintf("%q is not importance, url, last_crawl_time or last_inspected_at", o.By)}
	}
	if o.Descending {
		return columns[1], nil
	}
	return columns[0], nil
}

// indexConditions returns the WHERE clause on indexed_urls and the values of its parameters. Without Contains, it also fits index_counts,
// which has the same columns except those of the URL.
func (s *Store) indexConditions(propertyID string, q IndexQuery) (where string, values named) {
	values = named{"property": propertyID, "bucket": q.Bucket, "label": cleanLabel(q.CoverageState), "sitemap": []byte(q.SitemapPath),
		"part": foldPattern(q.Contains)}
	// The first two conditions match the partial indexes.
	where = "number = " + indexNumber + " AND bucket > 0"
	if q.Bucket != 0 {
		where += " AND bucket = @bucket"
	}
	if q.CoverageState != "" {
		where += " AND label = (SELECT number FROM coverage_labels WHERE label = @label)"
	}
	if q.SitemapPath != "" {
		// IS TRUE keeps PostgreSQL from turning this into a join, which would lose the index order and need a sort.
		where += " AND (sitemaps IN (SELECT m.sitemaps FROM index_sitemaps p JOIN index_sitemap_sets m ON m.number = p.number" +
			" AND m.sitemap = p.sitemap WHERE p.number = " + indexNumber + " AND p.path = @sitemap)) IS TRUE"
	}
	if q.Contains != "" {
		where += " AND " + s.dialect.urlContains()
	}
	return where, values
}

// urlContains is the condition that the lower-case form of a URL contains the bytes @part, without wildcards.
func (d dialect) urlContains() string {
	if d == sqliteDialect {
		return "instr(CASE WHEN folded IS NULL THEN url WHEN length(folded) > 0 THEN folded ELSE lower(url) END, @part) > 0"
	}
	return "position(@part IN CASE WHEN folded IS NULL THEN url WHEN length(folded) > 0 THEN folded" +
		" ELSE convert_to(lower(convert_from(url, 'UTF8') COLLATE \"C\"), 'UTF8') END) > 0"
}

// foldPattern returns a substring in the form of stored lower-case URLs, where spaces and everything except printable ASCII
// are percent-encoded.
func foldPattern(part string) []byte {
	var folded []byte
	for _, c := range []byte(part) {
		switch {
		case c <= ' ' || c >= 0x7f:
			folded = fmt.Appendf(folded, "%%%02x", c)
		case 'A' <= c && c <= 'Z':
			folded = append(folded, c+('a'-'A'))
		default:
			folded = append(folded, c)
		}
	}
	return folded
}

// keyset is the position of a row in an order: its sort key and its URL.
type keyset struct {
	key any
	url []byte
}

// countQuery returns a query for the total, to run after a page of rows was read. @read counts the rows up to the end of the page, and
// @last_key and @last_url are those of its last row. The total comes from the precomputed counts. For a substring search it is counted
// by an index walk over only the rows after the page.
func countQuery(q IndexQuery, order, where string, rows int) string {
	const walk, read = "SELECT count(*) FROM indexed_urls WHERE ", "SELECT CAST(@read AS BIGINT)"
	switch {
	case q.Contains == "":
		return "SELECT coalesce(sum(urls), 0) FROM index_counts WHERE " + where
	case rows < q.Limit && (rows > 0 || q.Offset == 0):
		return read
	case rows == 0:
		return walk + where
	}
	column, direction, _ := strings.Cut(order, " ")
	after := " > "
	if direction != "" {
		after = " < "
	}
	walked := "(" + walk + where + " AND "
	if column == "url" {
		return read + " + " + walked + "url" + after + "@last_url)"
	}
	return read + " + " + walked + column + after + "@last_key) + " + walked + column + " = @last_key AND url > @last_url)"
}

// totalQuery returns the query for a page without its rows; count is that for the total.
func totalQuery(count string) string {
	return "SELECT s.revision, (SELECT coalesce(sum(urls), 0) FROM index_counts WHERE number = s.number AND bucket > 0), (" + count + "), " +
		indexStateColumns + " FROM index_states s WHERE s.property_id = @property"
}

// readTotal returns a page without its rows, and the revision of the state it read. The query is a totalQuery.
func (s *Store) readTotal(ctx context.Context, query string, values named) (page IndexedPage, revision int64, err error) {
	_, err = one(ctx, s.indexing, func(row scanner, _ *struct{}) error {
		return row.Scan(append([]any{&revision, &page.Inspected, &page.Total}, page.State.fields()...)...)
	}, query, values)
	if errors.Is(err, sql.ErrNoRows) {
		return IndexedPage{}, neverRevised, nil
	}
	return page, revision, err
}

// pageQuery returns the query for the rows of a page. The inner query reads the page from a covering index alone; only the rows of the page
// are looked up in the table. An empty page is one row of NULLs with the revision.
func pageQuery(order, where string) string {
	column, direction, _ := strings.Cut(order, " ")
	inner, outer := order+", url", strings.TrimSpace("page.place "+direction)+", page.url"
	if column == "url" {
		inner, outer = order, strings.TrimSpace("page.url "+direction)
	}
	return "SELECT s.revision, page.place, u.url, u.bucket, l.label, u.verdict, u.crawled_at, u.inspected_at FROM index_states s" +
		" LEFT JOIN (SELECT number, url, " + column + " AS place FROM indexed_urls WHERE " + where +
		" ORDER BY " + inner + " LIMIT @limit OFFSET @offset) AS page ON page.number = s.number" +
		" LEFT JOIN indexed_urls u ON u.number = page.number AND u.url = page.url LEFT JOIN coverage_labels l ON l.number = u.label" +
		" WHERE s.property_id = @property ORDER BY " + outer
}

// readRows returns the rows of a page, the keyset of the last one, and the revision of the state it read. The query is a pageQuery.
func (s *Store) readRows(ctx context.Context, query string, values named) (rows []Inspection, last keyset, revision int64, err error) {
	revision = neverRevised
	rows, err = all(ctx, s.indexing, func(row scanner, i *Inspection) error {
		var bucket sql.NullInt16
		var label, verdict sql.NullString
		var at *time.Time
		err := row.Scan(&revision, &last.key, &last.url, &bucket, &label, &verdict, optionalSeconds{&i.LastCrawl}, optionalSeconds{&at})
		i.URL, i.Bucket, i.CoverageState, i.Verdict = string(last.url), translate.Bucket(bucket.Int16), label.String, verdict.String
		if at != nil {
			i.At = *at
		}
		return err
	}, query, values)
	if len(rows) == 1 && rows[0].URL == "" {
		return []Inspection{}, keyset{}, revision, err
	}
	return rows, last, revision, err
}
