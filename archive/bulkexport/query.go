package bulkexport

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sara/archive"
	"sara/translate"
)

// A Query describes what to aggregate in BigQuery.
type Query struct {
	SiteURL string              // of the property
	Dataset string              // dataset or project.dataset
	Days    translate.DateRange // both included
	URI     string              // of the exported files, gs://BUCKET/PREFIX-*.parquet
}

// PlaceholderURI is a URI to be edited.
const PlaceholderURI = "gs://BUCKET/PREFIX/sara-*.parquet"

// FirstExport is before the first day that Search Console exported to BigQuery for any property.
func FirstExport() translate.Date { return translate.NewDate(2023, 1, 1) }

// Check returns an error for an invalid dataset or URI, or a site_url that cannot be quoted.
func (q Query) Check() error {
	dataset := regexp.MustCompile(`^([a-z][a-z0-9.:-]{0,99}\.)?[A-Za-z0-9_]{1,1000}$`)
	uri := regexp.MustCompile(`^gs://[A-Za-z0-9._-]+/[A-Za-z0-9._/=-]*\*[A-Za-z0-9._/=-]*$`)
	switch {
	case !dataset.MatchString(q.Dataset):
		return fmt.Errorf("%.80q is not a dataset, such as searchconsole or my-project.searchconsole", q.Dataset)
	case !uri.MatchString(q.URI):
		return fmt.Errorf("%.80q is not a URI with one star, such as %s", q.URI, PlaceholderURI)
	case strings.ContainsFunc(q.SiteURL, func(c rune) bool { return c < ' ' || c > '~' }):
		return fmt.Errorf("%.80q has characters that a URL does not have", q.SiteURL)
	case q.Days.Start > q.Days.End:
		return errors.New("the first day is after the last")
	}
	return nil
}

// String returns the statement in BigQuery's dialect. Its result archives what the tables with the export log archive, except the
// pages of days that have only pages.
func (q Query) String() string {
	return strings.NewReplacer(
		"{uri}", literal(q.URI), "{site}", literal(q.SiteURL), "{dataset}", q.Dataset, "{top}", fmt.Sprint(archive.TopRows),
		"{from}", "DATE '"+q.Days.Start.String()+"'", "{to}", "DATE '"+q.Days.End.String()+"'", "{longest}", fmt.Sprint(archive.LongestKey),
	).Replace(queryText)
}

// literal returns a string literal of BigQuery.
func literal(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

// queryText is the query, with {names} in place of its literals. A dimension without rows on a day has one row without clicks and
// impressions: the import drops the row, and knows that the day has none. The log has days of all properties, so only those
// between the first and the last day of this property count.
const queryText = `EXPORT DATA OPTIONS(uri={uri}, format='PARQUET', compression='SNAPPY', overwrite=false) AS
WITH site AS (
  SELECT data_date, UPPER(IFNULL(search_type, '')) = 'WEB' AS is_web, query, is_anonymized_query, country, device,
    clicks, impressions, sum_top_position
  FROM ` + "`{dataset}.searchdata_site_impression`" + `
  WHERE data_date BETWEEN {from} AND {to} AND site_url = {site}
),
page AS (
  SELECT data_date, UPPER(IFNULL(search_type, '')) = 'WEB' AS is_web, url, clicks, impressions, sum_position
  FROM ` + "`{dataset}.searchdata_url_impression`" + `
  WHERE data_date BETWEEN {from} AND {to} AND site_url = {site}
),
exported AS (
  SELECT data_date, UPPER(namespace) AS namespace
  FROM ` + "`{dataset}.ExportLog`" + `
  WHERE data_date BETWEEN {from} AND {to}
),
site_days AS (
  SELECT DISTINCT data_date FROM exported
  WHERE namespace LIKE '%SITE_IMPRESSION'
    AND data_date BETWEEN (SELECT MIN(data_date) FROM site) AND (SELECT MAX(data_date) FROM site)
),
page_days AS (
  SELECT DISTINCT data_date FROM exported
  WHERE namespace LIKE '%URL_IMPRESSION'
    AND data_date BETWEEN (SELECT MIN(data_date) FROM page) AND (SELECT MAX(data_date) FROM page)
    AND data_date IN (SELECT data_date FROM site_days)
),
sums AS (
  SELECT data_date, 'total' AS dimension, '' AS key,
    SUM(clicks) AS clicks, SUM(impressions) AS impressions, SUM(sum_top_position) AS positions
  FROM site WHERE is_web AND data_date IN (SELECT data_date FROM site_days)
  GROUP BY data_date
  UNION ALL
  SELECT data_date, 'country', LOWER(country), SUM(clicks), SUM(impressions), SUM(sum_top_position)
  FROM site WHERE is_web AND data_date IN (SELECT data_date FROM site_days) AND REGEXP_CONTAINS(country, r'^[A-Za-z]{3}$')
  GROUP BY data_date, LOWER(country)
  UNION ALL
  SELECT data_date, 'device', UPPER(device), SUM(clicks), SUM(impressions), SUM(sum_top_position)
  FROM site WHERE is_web AND data_date IN (SELECT data_date FROM site_days) AND UPPER(device) IN ('DESKTOP', 'MOBILE', 'TABLET')
  GROUP BY data_date, UPPER(device)
  UNION ALL
  SELECT data_date, 'query', query, SUM(clicks), SUM(impressions), SUM(sum_top_position)
  FROM site WHERE is_web AND data_date IN (SELECT data_date FROM site_days)
    AND NOT IFNULL(is_anonymized_query, FALSE) AND BYTE_LENGTH(query) BETWEEN 1 AND {longest}
  GROUP BY data_date, query
  UNION ALL
  SELECT data_date, 'page', url, SUM(clicks), SUM(impressions), SUM(sum_position)
  FROM page WHERE is_web AND data_date IN (SELECT data_date FROM page_days) AND BYTE_LENGTH(url) BETWEEN 1 AND {longest}
  GROUP BY data_date, url
),
top AS (
  SELECT data_date, dimension, key, clicks, impressions, positions / impressions + 1 AS position
  FROM sums WHERE impressions > 0
  QUALIFY dimension NOT IN ('query', 'page')
    OR ROW_NUMBER() OVER (PARTITION BY data_date, dimension ORDER BY clicks DESC, key) <= {top}
),
known AS (
  SELECT data_date, 'total' AS dimension, '' AS key FROM site_days
  UNION ALL SELECT data_date, 'country', 'zzz' FROM site_days
  UNION ALL SELECT data_date, 'device', 'DESKTOP' FROM site_days
  UNION ALL SELECT data_date, 'query', '-' FROM site_days
  UNION ALL SELECT data_date, 'page', '-' FROM page_days
)
SELECT data_date AS date, dimension, key, clicks, impressions, position FROM top
UNION ALL
SELECT known.data_date, known.dimension, known.key, 0, 0, 0.0
FROM known LEFT JOIN (SELECT DISTINCT data_date, dimension FROM top) AS present
  ON present.data_date = known.data_date AND present.dimension = known.dimension
WHERE present.dimension IS NULL
`
