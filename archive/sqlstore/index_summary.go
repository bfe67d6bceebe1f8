package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"sara/translate"
)

// A CoverageCount is the number of URLs with one coverage state.
type CoverageCount struct {
	CoverageState string // the upstream's label
	Bucket        translate.Bucket
	Count         int
}

// A SitemapRollup is a sitemap with the counts of its URLs.
type SitemapRollup struct {
	DiscoveredSitemap
	URLs       int // tracked
	Inspected  int // of those
	Indexed    int // of those
	NotIndexed int // of those inspected, for any reason; the rest are unknown to the upstream
}

// An IndexDay is the counts of a property's URLs as published on a day.
type IndexDay struct {
	Date                                translate.Date
	URLs                                int // tracked
	Indexed, NotIndexed, Error, Unknown int // of those, by bucket
}

// An IndexSummary is the counts of a property's URLs.
type IndexSummary struct {
	State    IndexState
	Coverage []CoverageCount // of inspected URLs, ordered by count descending, then label
	Sitemaps []SitemapRollup // by path
	Trend    []IndexDay      // by date
}

// recount recomputes the precomputed counts of a property.
func recount(ctx context.Context, tx *sql.Tx, number int32) error {
	for _, statement := range []string{
		"DELETE FROM index_counts WHERE number = $1",
		"INSERT INTO index_counts (number, bucket, label, family, sitemaps, urls)" +
			" SELECT number, bucket, label, family, sitemaps, count(*) FROM indexed_urls WHERE number = $1" +
			" GROUP BY number, bucket, label, family, sitemaps",
	} {
		if _, err := tx.ExecContext(ctx, statement, number); err != nil {
			return fmt.Errorf("count the URLs: %w", err)
		}
	}
	return nil
}

// keptIndexDays is how many days of a property are kept: more than the longest trend has. They are counted, so that a wrong clock deletes none.
const keptIndexDays = 400

const (
	countIndexed = "coalesce(sum(CASE WHEN c.bucket = 1 THEN c.urls END), 0)"
	countLeftOut = "coalesce(sum(CASE WHEN c.bucket = 2 THEN c.urls END), 0)"
	countErrors  = "coalesce(sum(CASE WHEN c.bucket = 3 THEN c.urls END), 0)"
	countUnknown = "coalesce(sum(CASE WHEN c.bucket = 4 THEN c.urls END), 0)"
	countTracked = "coalesce(sum(c.urls), 0)"

	insertDay = "INSERT INTO index_days (day, number, urls, indexed, not_indexed, error, unknown) "
	onSameDay = " ON CONFLICT (number, day) DO UPDATE SET urls = excluded.urls, indexed = excluded.indexed," +
		" not_indexed = excluded.not_indexed, error = excluded.error, unknown = excluded.unknown"
	// A property without URLs has no counts, but still gets a day.
	recordDay = insertDay + "SELECT $1, s.number, " + countTracked + ", " + countIndexed + ", " + countLeftOut + ", " + countErrors + ", " +
		countUnknown + " FROM index_states s LEFT JOIN index_counts c ON c.number = s.number WHERE s.number = $2 GROUP BY s.number" + onSameDay
	pruneDays = "DELETE FROM index_days WHERE number = $1 AND day <=" +
		" (SELECT day FROM index_days WHERE number = $1 ORDER BY day DESC LIMIT 1 OFFSET $2)"
	saveDay = insertDay + "VALUES ($1, (SELECT number FROM index_states WHERE property_id = $2), $3, $4, $5, $6, $7)" + onSameDay
)

// SaveIndexDay records the counts of a property's URLs on a day for which this store published nothing.
func (s *Store) SaveIndexDay(ctx context.Context, propertyID string, d IndexDay) (err error) {
	defer wrap(&err, "save the coverage of property %s on %s", propertyID, d.Date)
	if err := s.openIndex(ctx, propertyID); err != nil {
		return err
	}
	return s.execute(ctx, saveDay, d.Date, propertyID, d.URLs, d.Indexed, d.NotIndexed, d.Error, d.Unknown)
}

const (
	selectCoverage = "SELECT l.label, c.bucket, sum(c.urls) FROM index_counts c JOIN coverage_labels l ON l.number = c.label" +
		" WHERE c.number = " + indexNumber + " AND c.bucket > 0 GROUP BY l.label, c.bucket"
	selectRollups = "SELECT p.path, p.last_downloaded, p.is_pending, p.warnings, p.errors, p.problem, coalesce(r.urls, 0)," +
		" coalesce(r.inspected, 0), coalesce(r.indexed, 0), coalesce(r.not_indexed, 0) FROM index_sitemaps p LEFT JOIN (" +
		"SELECT m.sitemap, sum(c.urls) AS urls, sum(CASE WHEN c.bucket > 0 THEN c.urls ELSE 0 END) AS inspected," +
		" sum(CASE WHEN c.bucket = 1 THEN c.urls ELSE 0 END) AS indexed," +
		" sum(CASE WHEN c.bucket IN (2, 3) THEN c.urls ELSE 0 END) AS not_indexed" +
		" FROM index_counts c JOIN index_sitemap_sets m ON m.number = c.number AND m.sitemaps = c.sitemaps" +
		" WHERE c.number = " + indexNumber + " GROUP BY m.sitemap) AS r ON r.sitemap = p.sitemap" +
		" WHERE p.number = " + indexNumber + " ORDER BY p.path"
	selectIndexDays = "SELECT day, urls, indexed, not_indexed, error, unknown FROM index_days" +
		" WHERE number = " + indexNumber + " AND day >= @from ORDER BY day"
)

func scanCoverage(row scanner, c *CoverageCount) error {
	return row.Scan(&c.CoverageState, &c.Bucket, &c.Count)
}

func scanRollup(row scanner, r *SitemapRollup) error {
	return row.Scan(&r.Path, optionalInstant{&r.LastDownloaded}, &r.IsPending, &r.Warnings, &r.Errors, &r.Problem,
		&r.URLs, &r.Inspected, &r.Indexed, &r.NotIndexed)
}

func scanIndexDay(row scanner, d *IndexDay) error {
	return row.Scan(&d.Date, &d.URLs, &d.Indexed, &d.NotIndexed, &d.Error, &d.Unknown)
}

// IndexSummary returns the counts of a property's URLs, with the trend from a day on if trendFrom is not nil. It reads from one
// snapshot.
func (s *Store) IndexSummary(ctx context.Context, propertyID string, trendFrom *translate.Date) (sum IndexSummary, err error) {
	defer wrap(&err, "read the coverage of property %s", propertyID)
	err = snapshot(ctx, s.indexing, readLimit, func(ctx context.Context, tx *sql.Tx) error {
		if sum.State, err = readIndexState(ctx, tx, propertyID); err != nil {
			return err
		}
		if sum.Coverage, err = all(ctx, tx, scanCoverage, selectCoverage, named{"property": propertyID}); err != nil {
			return err
		}
		slices.SortFunc(sum.Coverage, func(a, b CoverageCount) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.CoverageState, b.CoverageState), cmp.Compare(a.Bucket, b.Bucket))
		})
		if sum.Sitemaps, err = all(ctx, tx, scanRollup, selectRollups, named{"property": propertyID}); err != nil || trendFrom == nil {
			return err
		}
		sum.Trend, err = all(ctx, tx, scanIndexDay, selectIndexDays, named{"property": propertyID, "from": *trendFrom})
		return err
	})
	return sum, err
}
