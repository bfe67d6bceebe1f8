package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
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
	where, args := s.indexConditions(propertyID, q)
	for range maxReadings {
		rows, last, revision, err := s.readRows(ctx, order, where, append(slices.Clip(args), q.Limit, q.Offset))
		if err != nil {
			return IndexedPage{}, err
		}
		count, countArgs := countQuery(q, order, where, slices.Clip(args), len(rows), last)
		page, counted, err := s.readTotal(ctx, count, countArgs)
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

// indexConditions returns the WHERE clause on indexed_urls and its arguments. Without Contains, it also fits index_counts, which
// has the same columns except those of the URL.
func (s *Store) indexConditions(propertyID string, q IndexQuery) (where string, args []any) {
	// The first two conditions match the partial indexes.
	conditions, args := []string{"number = " + indexNumber, "bucket > 0"}, []any{propertyID}
	add := func(condition string, arg any) {
		args = append(args, arg)
		conditions = append(conditions, strings.ReplaceAll(condition, "$n", fmt.Sprintf("$%d", len(args))))
	}
	if q.Bucket != 0 {
		add("bucket = $n", q.Bucket)
	}
	if q.CoverageState != "" {
		add("label = (SELECT number FROM coverage_labels WHERE label = $n)", cleanLabel(q.CoverageState))
	}
	if q.SitemapPath != "" {
		// IS TRUE keeps PostgreSQL from turning this into a join, which would lose the index order and need a sort.
		add("(sitemaps IN (SELECT m.sitemaps FROM index_sitemaps p JOIN index_sitemap_sets m ON m.number = p.number"+
			" AND m.sitemap = p.sitemap WHERE p.number = "+indexNumber+" AND p.path = $n)) IS TRUE", []byte(q.SitemapPath))
	}
	if q.Contains != "" {
		add(s.dialect.urlContains(), foldPattern(q.Contains))
	}
	return strings.Join(conditions, " AND "), args
}

// urlContains is the condition that the lower-case form of a URL contains the bytes $n, without wildcards.
func (d dialect) urlContains() string {
	if d == sqliteDialect {
		return "instr(CASE WHEN folded IS NULL THEN url WHEN length(folded) > 0 THEN folded ELSE lower(url) END, $n) > 0"
	}
	return "position($n IN CASE WHEN folded IS NULL THEN url WHEN length(folded) > 0 THEN folded" +
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

const selectPosition = "SELECT s.revision, (SELECT coalesce(sum(urls), 0) FROM index_counts WHERE number = s.number AND bucket > 0), (%s), " +
	indexStateColumns + " FROM index_states s WHERE s.property_id = $1"

// keyset is the position of a row in an order: its sort key and its URL.
type keyset struct {
	key any
	url []byte
}

// countQuery returns a query for the total, to run after a page of rows was read; last is its last row. The total comes from
// the precomputed counts. For a substring search it is counted by an index walk over only the rows after the page.
func countQuery(q IndexQuery, order, where string, args []any, rows int, last keyset) (count string, _ []any) {
	const walk = "SELECT count(*) FROM indexed_urls WHERE "
	switch {
	case q.Contains == "":
		return "SELECT coalesce(sum(urls), 0) FROM index_counts WHERE " + where, args
	case rows < q.Limit && (rows > 0 || q.Offset == 0):
		return fmt.Sprintf("SELECT %d", q.Offset+rows), args[:1] // the property
	case rows == 0:
		return walk + where, args
	}
	column, direction, _ := strings.Cut(order, " ")
	after := ">"
	if direction != "" {
		after = "<"
	}
	n := len(args)
	if column == "url" {
		return fmt.Sprintf("SELECT %d + (%s%s AND url %s $%d)", q.Offset+rows, walk, where, after, n+1), append(args, last.url)
	}
	return fmt.Sprintf("SELECT %[1]d + (%[2]s%[3]s AND %[4]s %[5]s $%[6]d) + (%[2]s%[3]s AND %[4]s = $%[6]d AND url > $%[7]d)",
		q.Offset+rows, walk, where, column, after, n+1, n+2), append(args, last.key, last.url)
}

// readTotal returns a page without its rows, and the revision of the state it read. count is a query for the total.
func (s *Store) readTotal(ctx context.Context, count string, args []any) (page IndexedPage, revision int64, err error) {
	_, err = one(ctx, s.indexing, func(row scanner, _ *struct{}) error {
		return row.Scan(append([]any{&revision, &page.Inspected, &page.Total}, page.State.fields()...)...)
	}, fmt.Sprintf(selectPosition, count), args...)
	if errors.Is(err, sql.ErrNoRows) {
		return IndexedPage{}, neverRevised, nil
	}
	return page, revision, err
}

// The inner query reads the page from a covering index alone; only the rows of the page are looked up in the table. An empty page
// is one row of NULLs with the revision.
const selectPage = "SELECT s.revision, page.place, u.url, u.bucket, l.label, u.verdict, u.crawled_at, u.inspected_at FROM index_states s" +
	" LEFT JOIN (SELECT number, url, %[1]s AS place FROM indexed_urls WHERE %[3]s ORDER BY %[2]s LIMIT $%[4]d OFFSET $%[5]d) AS page" +
	" ON page.number = s.number" +
	" LEFT JOIN indexed_urls u ON u.number = page.number AND u.url = page.url LEFT JOIN coverage_labels l ON l.number = u.label" +
	" WHERE s.property_id = $1 ORDER BY %[6]s"

func pageQuery(order, where string, args int) string {
	column, direction, _ := strings.Cut(order, " ")
	inner, outer := order+", url", strings.TrimSpace("page.place "+direction)+", page.url"
	if column == "url" {
		inner, outer = order, strings.TrimSpace("page.url "+direction)
	}
	return fmt.Sprintf(selectPage, column, inner, where, args-1, args, outer)
}

// readRows returns the rows of a page, the keyset of the last one, and the revision of the state it read. The last two args are
// the limit and the offset.
func (s *Store) readRows(ctx context.Context, order, where string, args []any) (rows []Inspection, last keyset, revision int64, err error) {
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
	}, pageQuery(order, where, len(args)), args...)
	if len(rows) == 1 && rows[0].URL == "" {
		return []Inspection{}, keyset{}, revision, err
	}
	return rows, last, revision, err
}
